package jsontext

import "unsafe"

// Member is one member of an object.
type Member struct {
	Key string // unescaped
	Val Value
}

// Document is a document that was checked. The zero Document is ready for Parse.
type Document struct {
	Text Value
	// Members are those of the object that the document is: of equal names the
	// last value, at the place of the first.
	Members []Member
	// Strict says that the document is strict JSON, and so all of its values.
	Strict bool
}

// Get gives the value of a member, empty when there is none.
func (d *Document) Get(name string) Value {
	for i := range d.Members {
		if d.Members[i].Key == name {
			return d.Members[i].Val
		}
	}
	return ""
}

// Of takes text for a value, without a copy and unchecked: text must not change
// any more.
func Of(text []byte) Value { return Value(unsafe.String(unsafe.SliceData(text), len(text))) }

// usualMembers is room for the members of most objects.
const usualMembers = 12

// Parse validates a document, as Check does, and finds its members in the same
// pass. It uses the room of the Members that are there. text is not copied: it
// must not change any more.
func (d *Document) Parse(text []byte) error {
	found := memberList{list: d.Members[:0]}
	if cap(found.list) == 0 {
		found.list = make([]Member, 0, usualMembers)
	}
	s := scanner{b: string(Of(text)), found: &found}
	v, err := s.whole()
	d.Text, d.Members, d.Strict = v, found.list, !s.loose
	return err
}

// Members lists an object that was checked, as in [Document], in the room of a
// list that is not needed any more.
func Members(room []Member, v Value) []Member {
	found := memberList{list: room[:0]}
	_ = v.Each(func(key string, val Value) error { found.add(key, val); return nil })
	return found.list
}

// memberList collects members; a long list has an index.
type memberList struct {
	list  []Member
	index map[string]int
}

// indexFrom is the length from which a list has an index.
const indexFrom = 24

// add appends a member, or gives the one of that name its value.
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
