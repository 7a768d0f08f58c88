package bzip2enc

import (
	"container/heap"
	"slices"
)

// Parameters of the Huffman coding of a block.
const (
	groupSize = 50 // number of symbols that share one table
	maxTables = 6
	maxLength = 17 // longest code in bits; decoders accept up to 20
	rounds    = 4  // rounds of assigning tables to groups
)

// tables returns the number of tables that bzip2 uses for a block of the given number
// of symbols.
func tables(symbols int) int {
	for i, top := range [...]int{200, 600, 1200, 2400} {
		if symbols < top {
			return 2 + i
		}
	}
	return maxTables
}

// writeCodes writes the tables, the table chosen for each group, and the symbols. n is
// the size of the alphabet.
func (e *Encoder) writeCodes(n int) {
	count := tables(len(e.syms))
	lengths := e.split(n, count)
	groups := (len(e.syms) + groupSize - 1) / groupSize
	choice := make([]byte, groups)
	for range rounds {
		e.fit(lengths, choice, n)
	}
	e.out.Put(3, uint64(count))
	e.out.Put(15, uint64(groups))
	front := [maxTables]byte{0, 1, 2, 3, 4, 5}
	for _, c := range choice {
		at := slices.Index(front[:], c)
		copy(front[1:at+1], front[:at])
		front[0] = c
		e.out.Put(uint(at+1), uint64(1<<(at+1)-2))
	}
	codes := make([][]uint32, count)
	for t, l := range lengths {
		e.writeLengths(l)
		codes[t] = assign(l)
	}
	for i, s := range e.syms {
		t := choice[i/groupSize]
		e.out.Put(uint(lengths[t][s]), uint64(codes[t][s]))
	}
}

// split returns the initial tables. Each favors a range of symbols with an equal share
// of the occurrences.
func (e *Encoder) split(n, count int) [][]uint8 {
	lengths := make([][]uint8, count)
	left, lo := len(e.syms), 0
	for t := range lengths {
		want, have, hi := left/(count-t), int32(0), lo
		for hi < n && (int(have) < want || hi == lo) {
			have += e.freq[hi]
			hi++
		}
		if t == count-1 {
			hi = n
		}
		l := make([]uint8, n)
		for s := range l {
			if s < lo || s >= hi {
				l[s] = 15
			}
		}
		lengths[t] = l
		left -= int(have)
		lo = hi
	}
	return lengths
}

// fit assigns the cheapest table to each group and recomputes the tables from their
// groups.
func (e *Encoder) fit(lengths [][]uint8, choice []byte, n int) {
	freq := make([][]int32, len(lengths))
	for t := range freq {
		freq[t] = make([]int32, n)
	}
	for g := range choice {
		part := e.syms[g*groupSize : min((g+1)*groupSize, len(e.syms))]
		best := 1 << 30
		for t, l := range lengths {
			cost := 0
			for _, s := range part {
				cost += int(l[s])
			}
			if cost < best {
				best, choice[g] = cost, byte(t)
			}
		}
		for _, s := range part {
			freq[choice[g]][s]++
		}
	}
	for t := range lengths {
		huffman(lengths[t], freq[t])
	}
}

// writeLengths writes the code lengths of a table as increments and decrements.
func (e *Encoder) writeLengths(l []uint8) {
	now := l[0]
	e.out.Put(5, uint64(now))
	for _, v := range l {
		for ; now < v; now++ {
			e.out.Put(2, 2)
		}
		for ; now > v; now-- {
			e.out.Put(2, 3)
		}
		e.out.Put(1, 0)
	}
}

// assign returns the codes for the lengths, shorter ones first.
func assign(l []uint8) []uint32 {
	codes := make([]uint32, len(l))
	code := uint32(0)
	for n := uint8(1); n <= maxLength; n++ {
		for s, v := range l {
			if v == n {
				codes[s] = code
				code++
			}
		}
		code <<= 1
	}
	return codes
}

// node is a symbol or an inner node of a Huffman tree.
type node struct {
	weight      int64
	depth       int
	left, right int // indexes in the list of nodes; left is -1 for a symbol
}

type queue struct {
	nodes []node
	ids   []int
}

func (q *queue) Len() int { return len(q.ids) }
func (q *queue) Less(i, j int) bool {
	a, b := &q.nodes[q.ids[i]], &q.nodes[q.ids[j]]
	if a.weight != b.weight {
		return a.weight < b.weight
	}
	return a.depth < b.depth || a.depth == b.depth && q.ids[i] < q.ids[j]
}
func (q *queue) Swap(i, j int) { q.ids[i], q.ids[j] = q.ids[j], q.ids[i] }
func (q *queue) Push(x any)    { q.ids = append(q.ids, x.(int)) } //nolint:forcetypeassert // the value is always an int
func (q *queue) Pop() any {
	x := q.ids[len(q.ids)-1]
	q.ids = q.ids[:len(q.ids)-1]
	return x
}

// huffman sets the code lengths for the frequencies. Every symbol gets a code. It
// flattens the frequencies until no code is too long.
func huffman(lengths []uint8, freq []int32) {
	for shift := uint(0); ; shift++ {
		q := &queue{}
		for s, f := range freq {
			q.nodes = append(q.nodes, node{weight: int64(max(f, 1)-1)>>shift + 1, left: -1})
			q.ids = append(q.ids, s)
		}
		heap.Init(q)
		for q.Len() > 1 {
			a, b := heap.Pop(q).(int), heap.Pop(q).(int) //nolint:forcetypeassert // the value is always an int
			x, y := q.nodes[a], q.nodes[b]
			q.nodes = append(q.nodes, node{x.weight + y.weight, max(x.depth, y.depth) + 1, a, b})
			heap.Push(q, len(q.nodes)-1)
		}
		if root := len(q.nodes) - 1; q.nodes[root].depth <= maxLength {
			q.walk(lengths, root, 0)
			return
		}
	}
}

func (q *queue) walk(lengths []uint8, at int, depth uint8) {
	n := q.nodes[at]
	if n.left < 0 {
		lengths[at] = max(depth, 1)
		return
	}
	q.walk(lengths, n.left, depth+1)
	q.walk(lengths, n.right, depth+1)
}
