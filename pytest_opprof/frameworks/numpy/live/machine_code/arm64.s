// As x86_64.s, for arm64 (AAPCS64). A stub sets x16 to its block and jumps here.
// x19 TABLE, x20 to x23 the four arguments, x24 the block, x25 what the observer returned, x26 the thread state, x27 the result.
    .macro ENTER_TRACING
    ldr x9, [x19, #80]
    cbz x9, 1f
    blr x9
    mov x26, x0
    ldr x9, [x19, #88]
    blr x9
1:
    .endm
    .macro LEAVE_TRACING
    ldr x9, [x19, #80]
    cbz x9, 1f
    mov x0, x26
    ldr x9, [x19, #96]
    blr x9
1:
    .endm
    .macro ORIGINAL
    mov x0, x20
    mov x1, x21
    mov x2, x22
    mov x3, x23
    ldr x9, [x24]
    blr x9
    mov x27, x0
    .endm
    .macro OR_NONE register
    cmp \register, #0
    csel x10, x9, \register, eq
    .endm
    .macro ROUTINE name, kind, is_int=0
    .globl \name
    .balign 16
\name:
    hint #36                           // bti j
    .if \kind == 4
    ldr x9, [x1, #8]
    ldr x10, 99f
    ldr x11, [x10, #64]
    cmp x9, x11
    b.eq 2f
    ldr x11, [x10, #72]
    cmp x9, x11
    b.ne 3f
2:  ldr x9, [x16]
    br x9
3:
    .endif
    stp x29, x30, [sp, #-96]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    mov x24, x16
    mov x20, x0
    mov x21, x1
    mov x22, x2
    mov x23, x3
    ldr x19, 99f
    ENTER_TRACING
    .if \kind == 0
    mov x1, x21
    and x2, x22, #0x7fffffffffffffff
    mov x3, x23
    .endif
    .if \kind == 1 || \kind == 2
    .if \kind == 2
    mov x23, #0
    .endif
    mov x9, x22
    cbz x23, 2f
    ldr x10, [x23, #16]
    add x9, x9, x10
2:  lsl x10, x9, #3
    add x10, x10, #23
    and x10, x10, #-16
    sub sp, sp, x10
    mov x1, sp
    ldr x14, [x19, #56]
    cmp x20, #0
    csel x14, x14, x20, eq
    str x14, [x1]
    add x11, x1, #8
    mov x12, x21
    cbz x9, 4f
3:  ldr x13, [x12], #8
    str x13, [x11], #8
    sub x9, x9, #1
    cbnz x9, 3b
4:  add x2, x22, #1
    mov x3, x23
    .endif
    .if \kind >= 3
    .if \kind == 4 || \kind == 5 || \kind == 7
    mov x22, #0
    .endif
    .if \kind == 7
    mov x21, #0
    .endif
    sub sp, sp, #32
    ldr x9, [x19, #56]
    OR_NONE x20
    str x10, [sp]
    OR_NONE x21
    str x10, [sp, #8]
    .if \kind == 6
    and x11, x22, #7
    add x11, x19, x11, lsl #3
    ldr x10, [x11, #104]
    .else
    OR_NONE x22
    .endif
    str x10, [sp, #16]
    mov x1, sp
    mov x2, #3
    mov x3, #0
    .endif
    ldr x0, [x24, #8]
    ldr x9, [x19]
    blr x9
    mov sp, x29
    mov x25, x0
    LEAVE_TRACING
    cbz x25, 7f
    ORIGINAL
    ldr x9, [x19, #56]
    cmp x25, x9
    b.eq 5f
    .if \is_int
    cmn w27, #1
    b.eq 6f
    .else
    cbz x27, 6f
    .endif
    ENTER_TRACING
    sub sp, sp, #16
    .if \is_int
    ldr x9, [x19, #56]
    stp x25, x9, [sp]
    .else
    stp x25, x27, [sp]
    .endif
    ldr x0, [x19, #48]
    mov x1, sp
    mov x2, #2
    mov x3, #0
    ldr x9, [x19]
    blr x9
    mov sp, x29
    mov x28, x0
    LEAVE_TRACING
    cbz x28, 4f
    mov x0, x28
    ldr x9, [x19, #8]
    blr x9
    b 5f
4:  ldr x0, [x19, #24]
    ldr x9, [x19, #16]
    blr x9
    cbz w0, 3f
    ldr x9, [x19, #32]
    blr x9
    b 6f
3:
    .if \is_int
    mov x27, #-1
    .else
    mov x0, x27
    ldr x9, [x19, #8]
    blr x9
    mov x27, #0
    .endif
    b 5f
6:  mov x0, x25
    mov x1, #0
    mov x2, #0x7fffffff
    mov x3, #0
    ldr x9, [x19, #40]
    blr x9
5:  mov x0, x25
    ldr x9, [x19, #8]
    blr x9
    b 9f
7:  ldr x0, [x19, #24]
    ldr x9, [x19, #16]
    blr x9
    cbz w0, 8f
    ldr x9, [x19, #32]
    blr x9
    ORIGINAL
    b 9f
8:
    .if \is_int
    mov x27, #-1
    .else
    mov x27, #0
    .endif
9:  mov x0, x27
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp x29, x30, [sp], #96
    ret
    .balign 8
99: .quad 0x1122334455667788
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
hash:
    hint #34
    ldr x9, 98f
    ldr x9, [x9, #168]
    ldr x10, [x0, #16]
    ldr x11, [x10, #8]
    cbz x11, 1f                        // numba hashes functions that it has not compiled yet
    ldr x12, [x11]
    ldr x13, 97f
    cmp x12, x13
    b.ne 1f
    ldr w12, [x11, #8]
    ldr w13, 96f
    cmp w12, w13
    b.ne 1f
    stp x29, x30, [sp, #-32]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    mov x19, x10
    mov x20, x11
    ldr x12, [x11, #16]
    ldr x12, [x12]
    str x12, [x19, #8]
    blr x9
    str x20, [x19, #8]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #32
    ret
1:  br x9
    .balign 8
98: .quad 0x1122334455667788
97: .quad 0x58000070d50324df
96: .quad 0x58000091
    .globl write
    .balign 16
write:
    hint #34                           // bti c
    cbz x1, 2f
1:  ldp x9, x10, [x0]
    ldr x11, [x0, #16]
    ldr x12, [x9]
    cmp x12, x10
    b.ne 3f
    str x11, [x9]
3:  add x0, x0, #24
    sub x1, x1, #1
    cbnz x1, 1b
2:  ret

// Functions of NumPy's handler of memory, which may be called without the GIL. Block: 0 the original, 8 the counters:
// 0 bytes in use, 8 the most of it, 16 allocations, 24 `malloc_usable_size`. x19 keeps the counters, x20 the size.
    .macro COUNTED                     // the original, with all arguments where they were; then x20 more bytes in use
    ldr x9, [x16]
    blr x9
    cbz x0, 3f
    add x9, x19, #16
1:  ldxr x10, [x9]
    add x10, x10, #1
    stxr w11, x10, [x9]
    cbnz w11, 1b
1:  ldxr x10, [x19]
    add x10, x10, x20
    stxr w11, x10, [x19]
    cbnz w11, 1b
    add x9, x19, #8
1:  ldxr x12, [x9]
    cmp x10, x12
    b.le 2f
    stxr w11, x10, [x9]
    cbnz w11, 1b
2:  clrex
3:  ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #64
    ret
    .endm
    .macro ALLOCATES name
    .globl \name
    .balign 16
\name:
    hint #34                           // bti c
    stp x29, x30, [sp, #-64]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    ldr x19, [x16, #8]
    .endm
    ALLOCATES malloc                   // context, size
    mov x20, x1
    COUNTED
    ALLOCATES calloc                   // context, number, size
    mul x20, x1, x2
    COUNTED
    ALLOCATES realloc                  // context, block, size
    stp x0, x1, [sp, #32]
    stp x2, x16, [sp, #48]
    mov x0, x1
    ldr x9, [x19, #24]
    blr x9
    ldp x2, x16, [sp, #48]
    sub x20, x2, x0
    ldp x0, x1, [sp, #32]
    COUNTED
    .globl free
    .balign 16
free:                                  // context, block, size
    hint #34                           // bti c
    cbz x1, 2f
    ldr x9, [x16, #8]
1:  ldxr x10, [x9]
    sub x10, x10, x2
    stxr w11, x10, [x9]
    cbnz w11, 1b
2:  ldr x9, [x16]
    br x9
