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
