package server

// tokens finds what was opened by a call whose answer got lost, by the token
// that the host chose. Its owner guards it.
type tokens struct {
	byToken  map[uint64]uint64 // to the handle
	byHandle map[uint64]uint64
}

func newTokens() tokens {
	return tokens{map[uint64]uint64{}, map[uint64]uint64{}}
}

func (t *tokens) add(token, handle uint64) {
	if token != 0 {
		t.byToken[token], t.byHandle[handle] = handle, token
	}
}

// forget is called when a handle is closed.
func (t *tokens) forget(handle uint64) {
	if token, ok := t.byHandle[handle]; ok {
		delete(t.byHandle, handle)
		delete(t.byToken, token)
	}
}

// take gives the handle of a token and forgets it.
func (t *tokens) take(token uint64) (handle uint64, ok bool) {
	handle, ok = t.byToken[token]
	t.forget(handle)
	return handle, ok
}
