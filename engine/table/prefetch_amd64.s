#include "go_asm.h"
#include "textflag.h"

// func prefetch(at *[warmBatch]unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ (SI)(CX*8), DI

next:
	CMPQ SI, DI
	JEQ  done
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	JMP  next

done:
	RET

// func prefetchBehind(p unsafe.Pointer)
TEXT ·prefetchBehind(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	RET

// func prefetchEnds(of *[BatchSize]*segment, n int)
TEXT ·prefetchEnds(SB), NOSPLIT, $0-16
	MOVQ of+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ (SI)(CX*8), DI

next:
	CMPQ SI, DI
	JEQ  done
	MOVQ (SI), AX
	MOVQ segment_top(AX), BX
	ADDQ segment_base(AX), BX
	PREFETCHT0 (BX)
	PREFETCHT0 64(BX)
	PREFETCHT0 128(BX)
	ADDQ $8, SI
	JMP  next

done:
	RET
