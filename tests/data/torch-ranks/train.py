"""Three ranks of DDP on gloo. Rank 1 computes more before each backward pass; rank 2 casts its input there and back."""

import gzip
import json

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, big = torch.randn(32, 64), torch.randn(512, 512)
with profile(
    activities=[ProfilerActivity.CPU], record_shapes=True, schedule=schedule(wait=0, warmup=3, active=3, repeat=1)
) as prof:
    for _ in range(6):
        if rank == 1:
            torch.mm(big, big)
        if rank == 2:
            x.half().float()
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(torch.ones(1))
        prof.step()
prof.export_chrome_trace(f"raw.{rank}.json")
with open(f"raw.{rank}.json") as file:
    trace = json.load(file)
for key in ("host_name", "traceName", "trace_id"):
    trace.pop(key, None)
with open(f"rank{rank}.pt.trace.json.gz", "wb") as file:
    file.write(gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), 9, mtime=0))
dist.destroy_process_group()
