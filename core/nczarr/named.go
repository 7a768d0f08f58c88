package nczarr

import "slices"

// named is a list of things with names, in order, that finds them by name: the
// variables, groups or dimensions of a group. A long list has an index. Of equal
// names the first is found.
type named[T interface{ Name() string }] struct {
	list  []T
	index map[string]T
}

// indexFrom is the length from which a list has an index.
const indexFrom = 16

// add appends x.
func (n *named[T]) add(x T) {
	if n.list = append(n.list, x); n.index != nil {
		n.note(x)
	} else if len(n.list) == indexFrom {
		n.grow(3 * indexFrom)
	}
}

// grow makes room for more that will be added.
func (n *named[T]) grow(more int) {
	n.list = slices.Grow(n.list, more)
	if size := len(n.list) + more; n.index == nil && size >= indexFrom {
		n.index = make(map[string]T, size)
		for _, x := range n.list {
			n.note(x)
		}
	}
}

func (n *named[T]) note(x T) {
	if _, taken := n.index[x.Name()]; !taken {
		n.index[x.Name()] = x
	}
}

// find gives what has the name, nil when there is none.
func (n *named[T]) find(name string) (x T) {
	if n.index != nil {
		return n.index[name]
	}
	for _, x := range n.list {
		if x.Name() == name {
			return x
		}
	}
	return x
}
