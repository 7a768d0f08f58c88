//go:build !purego

#include "textflag.h"

// The weights of 64 bytes: 64 for the first, 1 for the last.
DATA adlerWeights<>+0(SB)/8, $0x393a3b3c3d3e3f40
DATA adlerWeights<>+8(SB)/8, $0x3132333435363738
DATA adlerWeights<>+16(SB)/8, $0x292a2b2c2d2e2f30
DATA adlerWeights<>+24(SB)/8, $0x2122232425262728
DATA adlerWeights<>+32(SB)/8, $0x191a1b1c1d1e1f20
DATA adlerWeights<>+40(SB)/8, $0x1112131415161718
DATA adlerWeights<>+48(SB)/8, $0x090a0b0c0d0e0f10
DATA adlerWeights<>+56(SB)/8, $0x0102030405060708
GLOBL adlerWeights<>(SB), RODATA|NOPTR, $64

DATA adlerOnes<>+0(SB)/8, $0x0001000100010001
GLOBL adlerOnes<>(SB), RODATA|NOPTR, $8

// func adlerAVX2(p *byte, count int) (sum, weighted uint64)
// Adds up count bytes, and the same bytes weighted by their distance to the end. Y0 holds
// the sums, Y1 the total of the sums before each step, Y2 and Y3 the weighted bytes
// within the steps.
TEXT ·adlerAVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ count+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y11, Y11, Y11
	VMOVDQU adlerWeights<>+0(SB), Y12
	VMOVDQU adlerWeights<>+32(SB), Y13
	VPBROADCASTQ adlerOnes<>(SB), Y14
loop:
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	VPADDD Y0, Y1, Y1
	VPSADBW Y11, Y4, Y6
	VPSADBW Y11, Y5, Y7
	VPMADDUBSW Y12, Y4, Y8
	VPMADDUBSW Y13, Y5, Y9
	VPMADDWD Y14, Y8, Y8
	VPMADDWD Y14, Y9, Y9
	VPADDD Y6, Y0, Y0
	VPADDD Y7, Y0, Y0
	VPADDD Y8, Y2, Y2
	VPADDD Y9, Y3, Y3
	ADDQ $64, SI
	SUBQ $64, CX
	JNZ loop
	VPSLLD $6, Y1, Y1
	VPADDD Y2, Y3, Y2
	VPADDD Y1, Y2, Y2
	VEXTRACTI128 $1, Y0, X4
	VPADDD X4, X0, X0
	VPSHUFD $0x4E, X0, X4
	VPADDD X4, X0, X0
	VEXTRACTI128 $1, Y2, X5
	VPADDD X5, X2, X2
	VPSHUFD $0x4E, X2, X5
	VPADDD X5, X2, X2
	VPSHUFD $0xB1, X2, X5
	VPADDD X5, X2, X2
	VMOVD X0, AX
	VMOVD X2, BX
	VZEROUPPER
	MOVQ AX, sum+16(FP)
	MOVQ BX, weighted+24(FP)
	RET
