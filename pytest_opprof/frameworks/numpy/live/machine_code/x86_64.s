# The code that calls of NumPy are led through (System V ABI). A stub sets r10 to its block and jumps here.
#   block: 0 the original function, 8 the observer.  TABLE (rbx): see `machine.TABLE`.
# r12 to r15 keep the four arguments; -48 the block, -56 what the observer returned, -64 the thread state.
    .intel_syntax noprefix
    .macro ENTER_TRACING
    mov rax, [rbx+80]
    test rax, rax
    jz 1f
    call rax
    mov [rbp-64], rax
    mov rdi, rax
    call [rbx+88]
1:
    .endm
    .macro LEAVE_TRACING
    cmp qword ptr [rbx+80], 0
    jz 1f
    mov rdi, [rbp-64]
    call [rbx+96]
1:
    .endm
    .macro ORIGINAL
    mov rdi, r12
    mov rsi, r13
    mov rdx, r14
    mov rcx, r15
    mov rax, [rbp-48]
    call [rax]
    mov r12, rax
    .endm
    .macro ROUTINE name, kind, is_int=0
    .globl \name
    .balign 16
\name:
    .if \kind == 4                     # by index: an int or a slice is a view or one item, never an op
    mov rax, [rsi+8]
    movabs r11, 0x1122334455667788
    cmp rax, [r11+64]
    je 2f
    cmp rax, [r11+72]
    jne 3f
2:  jmp [r10]
3:
    .endif
    push rbp
    mov rbp, rsp
    push rbx
    push r12
    push r13
    push r14
    push r15
    sub rsp, 24
    mov [rbp-48], r10
    mov r12, rdi
    mov r13, rsi
    mov r14, rdx
    mov r15, rcx
    movabs rbx, 0x1122334455667788
    ENTER_TRACING
    .if \kind == 0                     # vectorcall: callable, args, nargsf, kwnames
    mov rsi, r13
    mov rdx, r14
    btr rdx, 63
    mov rcx, r15
    .endif
    .if \kind == 1 || \kind == 2       # METH_FASTCALL: self, args, nargs; 2 without kwnames
    .if \kind == 2
    xor r15d, r15d
    .endif
    mov rax, r14
    test r15, r15
    jz 2f
    add rax, [r15+16]
2:  lea rdx, [rax*8+23]
    and rdx, -16
    sub rsp, rdx
    mov rcx, r12                       # Cython's functions of modules may have no self
    test rcx, rcx
    cmovz rcx, [rbx+56]
    mov [rsp], rcx
    lea rdi, [rsp+8]
    mov rsi, r13
    mov rcx, rax
    rep movsq
    mov rsi, rsp
    lea rdx, [r14+1]
    mov rcx, r15
    .endif
    .if \kind >= 3                     # fixed arguments: 3 three of them, 4 and 5 two, 6 two and a number, 7 one
    .if \kind == 4 || \kind == 5 || \kind == 7
    xor r14d, r14d
    .endif
    .if \kind == 7
    xor r13d, r13d
    .endif
    sub rsp, 32
    mov rax, [rbx+56]
    mov rcx, r12
    test rcx, rcx
    cmovz rcx, rax
    mov [rsp], rcx
    mov rcx, r13
    test rcx, rcx
    cmovz rcx, rax
    mov [rsp+8], rcx
    mov rcx, r14
    .if \kind == 6
    and ecx, 7
    mov rcx, [rbx+104+rcx*8]           # as an int of Python
    .endif
    test rcx, rcx
    cmovz rcx, rax
    mov [rsp+16], rcx
    mov rsi, rsp
    mov edx, 3
    xor ecx, ecx
    .endif
    mov rax, [rbp-48]
    mov rdi, [rax+8]
    call [rbx]
    lea rsp, [rbp-64]
    mov [rbp-56], rax
    LEAVE_TRACING
    cmp qword ptr [rbp-56], 0
    je 7f
    ORIGINAL
    mov r13, [rbp-56]
    cmp r13, [rbx+56]
    je 5f
    .if \is_int
    cmp r12d, -1
    .else
    test r12, r12
    .endif
    je 6f
    ENTER_TRACING
    sub rsp, 16
    mov [rsp], r13
    .if \is_int
    mov rax, [rbx+56]
    mov [rsp+8], rax
    .else
    mov [rsp+8], r12
    .endif
    mov rdi, [rbx+48]
    mov rsi, rsp
    mov edx, 2
    xor ecx, ecx
    call [rbx]
    add rsp, 16
    mov r14, rax
    LEAVE_TRACING
    test r14, r14
    jz 4f
    mov rdi, r14
    call [rbx+8]
    jmp 5f
4:  mov rdi, [rbx+24]                  # the end observer raised
    call [rbx+16]
    test eax, eax
    jz 3f
    call [rbx+32]
    jmp 6f
3:
    .if \is_int
    mov r12, -1
    .else
    mov rdi, r12
    call [rbx+8]
    xor r12d, r12d
    .endif
    jmp 5f
6:  mov rdi, r13                       # the original raised: the record becomes empty
    xor esi, esi
    mov edx, 0x7fffffff
    xor ecx, ecx
    call [rbx+40]
5:  mov rdi, r13
    call [rbx+8]
    jmp 9f
7:  mov rdi, [rbx+24]                  # the observer raised: no room for it, or an exception of a signal handler
    call [rbx+16]
    test eax, eax
    jz 8f
    call [rbx+32]
    ORIGINAL
    jmp 9f
8:
    .if \is_int
    mov r12, -1
    .else
    xor r12d, r12d
    .endif
9:  mov rax, r12
    lea rsp, [rbp-40]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
    .endm
    ROUTINE vectorcall, 0
    ROUTINE fastcall_keywords, 1
    ROUTINE fastcall, 2
    ROUTINE three, 3
    ROUTINE by_index, 4
    ROUTINE two, 5
    ROUTINE three_int, 3, 1
    ROUTINE compare, 6
    ROUTINE one, 7
    .globl hash
    .balign 16
hash:                                  # of a builtin function: Python hashes the pointer that a stub has replaced
    movabs r11, 0x1122334455667788
    mov rax, [rdi+16]
    mov rcx, [rax+8]
    test rcx, rcx                      # numba hashes functions that it has not compiled yet
    jz 1f
    cmp dword ptr [rcx], 0xfa1e0ff3    # the code of a stub, without its numbers
    jne 1f
    cmp word ptr [rcx+4], 0xba49
    jne 1f
    cmp word ptr [rcx+14], 0xbb49
    jne 1f
    cmp word ptr [rcx+24], 0xff41
    jne 1f
    push rbx
    push r12
    push r13
    mov rbx, rax
    mov r12, rcx
    mov rax, [rcx+6]
    mov rax, [rax]
    mov [rbx+8], rax                   # no Python code runs until it is put back
    call [r11+168]
    mov [rbx+8], r12
    pop r13
    pop r12
    pop rbx
    ret
1:  jmp [r11+168]
    .globl write
    .balign 16
write:                                 # rows of address, old, new: where the address holds old, it gets new
    test rsi, rsi
    jz 2f
1:  mov rax, [rdi]
    mov rdx, [rdi+8]
    mov rcx, [rdi+16]
    cmp [rax], rdx
    jne 3f
    mov [rax], rcx
3:  add rdi, 24
    dec rsi
    jnz 1b
2:  ret

# Functions of NumPy's handler of memory, which may be called without the GIL. Block: 0 the original, 8 the counters:
# 0 bytes in use, 8 the most of it, 16 allocations, 24 `malloc_usable_size`. rbx keeps the counters, r12 the size.
    .macro COUNT                       # r12 more bytes in use
    lock inc qword ptr [rbx+16]
    mov rcx, r12
    lock xadd [rbx], rcx
    add rcx, r12
    mov rdx, rax
    mov rax, [rbx+8]
2:  cmp rcx, rax
    jle 3f
    lock cmpxchg [rbx+8], rcx
    jne 2b
3:  mov rax, rdx
    .endm
    .macro COUNTED                     # the original, with all arguments where they were
    call [r10]
    test rax, rax
    jz 1f
    COUNT
1:  add rsp, 8
    pop r12
    pop rbx
    ret
    .endm
    .macro ALLOCATES name
    .globl \name
    .balign 16
\name:
    push rbx
    push r12
    sub rsp, 8
    mov rbx, [r10+8]
    .endm
    ALLOCATES malloc                   # context, size
    mov r12, rsi
    COUNTED
    ALLOCATES calloc                   # context, number, size
    mov r12, rsi
    imul r12, rdx
    COUNTED
    ALLOCATES realloc                  # context, block, size
    push rdi
    push rsi
    push rdx
    push r10
    mov rdi, rsi
    call [rbx+24]
    pop r10
    pop rdx
    pop rsi
    pop rdi
    mov r12, rdx
    sub r12, rax
    COUNTED
    .globl free
    .balign 16
free:                                  # context, block, size
    test rsi, rsi
    jz 1f
    mov rax, [r10+8]
    lock sub [rax], rdx
1:  jmp [r10]
