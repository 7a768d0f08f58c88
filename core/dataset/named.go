package dataset

import "slices"

// named is an ordered list of elements with names, such as the variables of a group,
// with lookup by name. A long list has an index. Of several elements with the same
// name, the lookup returns the first.
type named[T interface{ Name() string }] struct {
	list  []T
	index map[string]T
}

// indexFrom is the minimum length of a list with an index.
const indexFrom = 16

// add appends x.
func (n *named[T]) add(x T) {
	if n.list = append(n.list, x); n.index != nil {
		n.note(x)
	} else if len(n.list) == indexFrom {
		n.grow(3 * indexFrom)
	}
}

// grow allocates space for more elements, and creates the index if the list is going to
// be long.
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

// find returns the element with the name, or the zero value if none exists.
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
