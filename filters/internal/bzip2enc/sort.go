package bzip2enc

// sorter sorts the rotations of a block by doubling: each round doubles the number of
// bytes by which they are sorted. It takes O(n log n) time for any block.
type sorter struct {
	order, other []int32 // rotations, sorted by their prefixes
	rank, next   []int32 // class of each rotation; equal for rotations that agree so far
	count        []int32
	last         []byte
}

// transform returns the last byte of each rotation in sorted order, and the index of the
// block itself among them. The bytes are valid until the next call.
//
// Source: Burrows and Wheeler 1994; Manber and Myers 1993 for doubling.
func (s *sorter) transform(block []byte) (last []byte, start int) {
	n := len(block)
	s.size(n)
	classes := s.first(block)
	for k := 1; k < n && classes < n; k *= 2 {
		for i, p := range s.order {
			s.other[i] = p - int32(k)
			if s.other[i] < 0 {
				s.other[i] += int32(n)
			}
		}
		s.count = s.count[:classes]
		clear(s.count)
		for _, p := range s.other {
			s.count[s.rank[p]]++
		}
		s.place()
		classes = s.rerank(k)
	}
	for i, p := range s.order {
		if p == 0 {
			start = i
			p = int32(n)
		}
		s.last[i] = block[p-1]
	}
	return s.last, start
}

func (s *sorter) size(n int) {
	if cap(s.order) < n {
		s.order, s.other = make([]int32, n), make([]int32, n)
		s.rank, s.next = make([]int32, n), make([]int32, n)
		s.count, s.last = make([]int32, max(n, 256)), make([]byte, n)
	}
	s.order, s.other, s.rank, s.next, s.last = s.order[:n], s.other[:n], s.rank[:n], s.next[:n], s.last[:n]
}

// first sorts the rotations by their first byte and returns the number of classes.
func (s *sorter) first(block []byte) int {
	s.count = s.count[:256]
	clear(s.count)
	for i, b := range block {
		s.count[b]++
		s.other[i] = int32(i)
	}
	classes := int32(0)
	var number [256]int32
	for b, c := range s.count {
		number[b] = classes
		if c > 0 {
			classes++
		}
	}
	for i, b := range block {
		s.rank[i] = number[b]
	}
	clear(s.count[:classes])
	for _, b := range block {
		s.count[number[b]]++
	}
	s.count = s.count[:classes]
	s.place()
	return int(classes)
}

// place sorts the rotations in s.other by rank and stores them in s.order. s.count holds
// the sizes of the classes and is overwritten.
func (s *sorter) place() {
	sum := int32(0)
	for i, c := range s.count {
		s.count[i] = sum
		sum += c
	}
	for _, p := range s.other {
		r := s.rank[p]
		s.order[s.count[r]] = p
		s.count[r]++
	}
}

// rerank numbers the classes of rotations that agree in 2k bytes and returns their
// number.
func (s *sorter) rerank(k int) int {
	n := int32(len(s.order))
	half := func(p int32) int32 {
		if p += int32(k); p >= n {
			p -= n
		}
		return s.rank[p]
	}
	class := int32(0)
	s.next[s.order[0]] = 0
	for i := 1; i < len(s.order); i++ {
		a, b := s.order[i-1], s.order[i]
		if s.rank[a] != s.rank[b] || half(a) != half(b) {
			class++
		}
		s.next[b] = class
	}
	s.rank, s.next = s.next, s.rank
	return int(class) + 1
}
