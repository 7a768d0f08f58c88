package jsontext

import "unsafe"

// Member is one member of an object.
type Member struct {
	Key string // unescaped
	Val Value
}

// Document is a validated document. The zero Document is ready for Parse.
type Document struct {
	Text Value
	// Members are the members of the top-level object. If a name occurs more than once,
	// the member has the first position and the last value.
	Members []Member
	// Strict reports whether the document, and so each of its values, is strict JSON.
	Strict bool
}

// Get returns the value of a member, or "".
func (d *Document) Get(name string) Value {
	for i := range d.Members {
		if d.Members[i].Key == name {
			return d.Members[i].Val
		}
	}
	return ""
}

// FromBytes returns text as a Value without copying or validating it. The caller must not modify
// text afterwards.
func FromBytes(text []byte) Value { return Value(unsafe.String(unsafe.SliceData(text), len(text))) }

// typicalMembers is the initial capacity for the members of an object.
const typicalMembers = 12

// Parse validates a document, as [Check] does, and finds its members in the same pass. It
// reuses the memory of d.Members. It does not copy text, which must not be modified
// afterwards.
func (d *Document) Parse(text []byte) error {
	found := memberList{list: d.Members[:0]}
	if cap(found.list) == 0 {
		found.list = make([]Member, 0, typicalMembers)
	}
	s := scanner{b: string(FromBytes(text)), found: &found}
	v, err := s.whole()
	d.Text, d.Members, d.Strict = v, found.list, !s.loose
	return err
}

// Members returns the members of a validated object, with duplicates treated as in
// [Document]. It reuses the memory of buf, which may be nil.
func Members(buf []Member, v Value) []Member {
	found := memberList{list: buf[:0]}
	_ = v.Each(func(key string, val Value) error { found.add(key, val); return nil })
	return found.list
}

// memberList collects members. A long list has an index.
type memberList struct {
	list  []Member
	index map[string]int
}

// indexFrom is the minimum length of a list with an index.
const indexFrom = 24

// add appends a member, or replaces the value of the member with that name.
func (l *memberList) add(key string, val Value) {
	if at, ok := l.find(key); ok {
		l.list[at].Val = val
		return
	}
	l.list = append(l.list, Member{key, val})
	switch n := len(l.list); {
	case l.index != nil:
		l.index[key] = n - 1
	case n == indexFrom:
		l.index = make(map[string]int, 4*indexFrom)
		for i := range l.list {
			l.index[l.list[i].Key] = i
		}
	}
}

func (l *memberList) find(key string) (at int, ok bool) {
	if l.index != nil {
		at, ok = l.index[key]
		return at, ok
	}
	for i := range l.list {
		if l.list[i].Key == key {
			return i, true
		}
	}
	return 0, false
}
