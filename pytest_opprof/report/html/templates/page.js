"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Tables: a click on a heading sorts by it, the largest first; a second one turns that around.
for (const heading of all("th[data-sort]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  button.onclick = () => {
    const table = heading.closest("table"), column = heading.cellIndex, body = table.tBodies[0];
    const rises = heading.getAttribute("aria-sort") === "descending";
    for (const other of all("th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
    const keyed = [...body.rows].map(row => [row.cells[column].dataset.v ?? row.cells[column].textContent.trim(), row]);
    const known = keyed.filter(([key]) => key !== ""), unknown = keyed.filter(([key]) => key === "");
    const numbers = known.every(([key]) => !isNaN(key));
    known.sort(([a], [b]) => numbers ? b - a : a.localeCompare(b));
    if (rises) known.reverse();
    body.append(...[...known, ...unknown].map(([, row]) => row));
  };
}

// What filters is of use with this script alone, so it is hidden until here.
for (const box of all("[data-filter]")) {
  box.hidden = false;
  const items = all(box.dataset.filter).map(item => [item, item.textContent.toLowerCase()]);
  const groups = all("details.group"), said = all("[role=status]", box)[0];
  box.oninput = () => {
    const word = all("input[type=search]", box)[0].value.toLowerCase();
    const chosen = all("input[type=checkbox]:checked", box).map(each => each.value);
    let shown = 0;
    for (const [item, text] of items) {
      item.hidden = !text.includes(word) || (chosen.length > 0 && !chosen.includes(item.dataset.status));
      shown += !item.hidden;
    }
    for (const group of groups) group.hidden = all("details.test", group).every(test => test.hidden);
    said.textContent = shown === items.length ? "" : `${shown} of ${items.length} shown`;
  };
}

// Commands: a button beside each copies it. From disk there may be no clipboard for scripts: then it is selected.
for (const command of all("code.cmd")) {
  const button = document.createElement("button");
  [button.type, button.className, button.textContent] = ["button", "copy", "copy"];
  button.setAttribute("aria-label", `Copy ${command.textContent}`);
  button.onclick = event => {
    event.preventDefault();
    const say = text => {
      button.textContent = text;
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    };
    const select = () => {
      getSelection().selectAllChildren(command);
      say(document.execCommand("copy") ? "copied" : "selected: press Ctrl-C");
    };
    navigator.clipboard ? navigator.clipboard.writeText(command.textContent).then(() => say("copied"), select) : select();
  };
  command.after(" ", button);
}

// On a narrow page the rows of a table are cards: each cell says which column it is of.
const narrow = matchMedia("(max-width:600px)");
const cards = () => {
  for (const table of narrow.matches ? all("table:not(.cards-of)") : []) {
    const labels = all("thead tr > *", table).map(each => each.innerText.trim().replace(/\s+/g, " "));
    for (const row of table.tBodies[0].rows) {
      for (const cell of row.cells) {
        if (cell.cellIndex && labels[cell.cellIndex]) cell.dataset.l ??= labels[cell.cellIndex];
        cell.classList.toggle("none", cell.textContent.trim() === "-");
        cell.classList.toggle("all", cell.textContent.length > 40);
      }
    }
    table.classList.add("cards-of");
  }
};
narrow.addEventListener("change", cards);
cards();

// Names that do not fit: who moves to one by keyboard sees all of it.
for (const name of all("div.row .name")) if (name.scrollHeight > name.clientHeight + 1) name.tabIndex = 0;

// The timeline: below it stand the name of the bar that the pointer or the keyboard is at, or the time. A bar leads to its op.
const timeline = document.getElementById("timeline"), bars = timeline ? all("rect.one", timeline) : [];
if (bars.length) {
  const said = document.getElementById("timeline-said"), length = timeline.dataset.ns;
  const time = ns => {
    const unit = ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3;
    return `${+(ns / 10 ** (3 * unit)).toPrecision(3)} ${["ns", "us", "ms", "s"][unit]}`;
  };
  const begin = bar => time(bar.getAttribute("x") / 1240 * length);
  const say = bar => { said.textContent = `${bar.textContent}, from ${begin(bar)} on${bar.dataset.op ? ": Enter or a click shows its op" : ""}`; };
  const follow = bar => { if (bar.dataset.op) location.hash = `op-${bar.dataset.op}`; };
  timeline.setAttribute("role", "group");
  for (const bar of bars) {
    bar.tabIndex = -1;
    bar.setAttribute("role", bar.dataset.op ? "link" : "img");
    bar.setAttribute("aria-label", bar.textContent);
    bar.onfocus = () => say(bar);
    bar.onclick = () => follow(bar);
  }
  bars[0].tabIndex = 0;
  timeline.onmousemove = event => {
    const box = timeline.getBoundingClientRect();
    event.target.matches("rect.one") ? say(event.target) : said.textContent = `at ${time((event.clientX - box.left) / box.width * length)}`;
  };
  timeline.onkeydown = event => {
    const at = bars.indexOf(event.target), middle = bar => +bar.getAttribute("x") + bar.getAttribute("width") / 2;
    const place = bar => bar.getBoundingClientRect().top;
    const rows = [...new Set(bars.map(place))].sort((a, b) => a - b), row = rows.indexOf(place(event.target));
    const near = number => bars.filter(bar => place(bar) === rows[number]).sort((a, b) => Math.abs(middle(a) - middle(event.target)) - Math.abs(middle(b) - middle(event.target)))[0];
    const to = {ArrowRight: bars[at + 1], ArrowLeft: bars[at - 1], ArrowDown: near(row + 1), ArrowUp: near(row - 1)}[event.key];
    if (event.key === "Enter") follow(event.target);
    if (!to) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
}

// A link to a test opens it, and the group that it is in.
const open = () => {
  const target = document.getElementById(location.hash.slice(1));
  for (let each = target; each; each = each.parentElement) {
    if (each.tagName === "DETAILS") [each.open, each.hidden] = [true, false];
  }
  target?.scrollIntoView();
};
addEventListener("hashchange", open);
open();
