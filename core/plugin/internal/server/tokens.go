package server

// tokens maps tokens chosen by the host to handles. With a token the host can close a
// store or pipeline even if it did not receive the handle. The owner must synchronize
// access.
type tokens struct {
	byToken  map[uint64]uint64 // token to handle
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

// forget removes a closed handle and its token.
func (t *tokens) forget(handle uint64) {
	if token, ok := t.byHandle[handle]; ok {
		delete(t.byHandle, handle)
		delete(t.byToken, token)
	}
}

// take returns the handle of a token, and removes both from t.
func (t *tokens) take(token uint64) (handle uint64, ok bool) {
	handle, ok = t.byToken[token]
	t.forget(handle)
	return handle, ok
}
