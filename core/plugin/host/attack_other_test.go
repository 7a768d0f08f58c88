//go:build !linux

package host_test

import "errors"

func mapSegment(int, int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

const wantAttacks = ""

func attack([]byte) string { return "" }
