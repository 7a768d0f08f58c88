package cdl

// maxPlain is the maximum length in bytes of a number that plainNumber parses.
const maxPlain = 48

// powers are the powers of ten that are exact as float64.
var powers = [23]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// nextPlain consumes a comma, if it is next, and then a plain number, if one follows.
// The number becomes *tok. This is the fast path for long lists of numbers.
func (l *lexer) nextPlain(tok *token) (comma, number bool) {
	l.skipBlanks()
	if c, ok := l.peek(0); !ok || c != ',' {
		return false, false
	}
	l.take()
	l.skipBlanks()
	if c, ok := l.peek(0); !ok || c-'0' > 9 && c != '-' {
		return true, false
	}
	pos := l.pos
	val, ok := l.plainNumber()
	if ok {
		val.Pos = pos
		tok.kind, tok.pos, tok.text, tok.val = tokValue, pos, "", val
	}
	return true, ok
}

// skipBlanks skips white space in the window.
func (l *lexer) skipBlanks() {
	at := l.at
	for ; at < len(l.win) && l.win[at] <= ' '; at++ {
		if l.win[at] == '\n' {
			l.pos.Line++
			l.pos.Col = 1
		} else {
			l.pos.Col++
		}
	}
	l.at = at
}

// plainNumber parses a decimal number that has no suffix and whose value can be
// computed exactly or with a single rounding. Most numbers are like this. If
// plainNumber returns false, it has consumed no input.
func (l *lexer) plainNumber() (Value, bool) {
	if len(l.win)-l.at < maxPlain {
		l.peek(maxPlain - 1) // a failure at the end of the input is harmless
	}
	win := l.win[l.at:]
	i, neg := 0, false
	if win[0] == '-' || win[0] == '+' {
		i, neg = 1, win[0] == '-'
	}
	first := i
	mant, digits, point, i := plainDigits(win, i)
	exp, n := 0, i
	if i < len(win) && win[i]|0x20 == 'e' {
		exp, i = plainExponent(win, i+1)
	}
	real := point >= 0 || i > n
	if digits == 0 || digits > 18 || i >= len(win) || i >= maxPlain || !endsNumber(win[i]) || !real && digits > 1 && win[first] == '0' {
		return Value{}, false
	}
	if point >= 0 {
		exp -= digits - point
	}
	val, _ := untyped(mant, neg) // 18 digits always fit in 64 bits
	if real {
		var ok bool
		if val, ok = plainFloat(mant, exp, neg); !ok {
			return Value{}, false
		}
	}
	l.at += i
	l.pos.Col += int32(i) // i is at most maxPlain
	return val, true
}

// plainDigits parses digits with at most one point. point is the number of digits
// before it, or -1.
func plainDigits(win []byte, i int) (mant uint64, digits, point, next int) {
	point = -1
	for ; i < len(win) && i < maxPlain; i++ {
		c := win[i]
		switch {
		case c-'0' <= 9:
			mant = mant*10 + uint64(c-'0')
			digits++
		case c == '.' && point < 0:
			point = digits
		default:
			return mant, digits, point, i
		}
	}
	return mant, digits, point, i
}

// plainFloat returns mant times ten to the power of exp. It returns false if a single
// rounding is not enough.
func plainFloat(mant uint64, exp int, neg bool) (Value, bool) {
	if mant >= 1<<53 || exp < -22 || exp > 22 {
		return Value{}, false
	}
	f := float64(mant)
	if exp < 0 {
		f /= powers[-exp]
	} else {
		f *= powers[exp]
	}
	if neg {
		f = -f
	}
	return double(f), true
}

// plainExponent parses an optional sign and one to three digits. next is the index
// after them, or maxPlain if there are no digits.
func plainExponent(win []byte, i int) (exp, next int) {
	neg := false
	if i < len(win) && (win[i] == '-' || win[i] == '+') {
		neg = win[i] == '-'
		i++
	}
	from := i
	for i < len(win) && i < from+3 && win[i]-'0' <= 9 {
		exp = exp*10 + int(win[i]-'0')
		i++
	}
	if i == from {
		return 0, maxPlain
	}
	if neg {
		exp = -exp
	}
	return exp, i
}

// endsNumber reports whether c is white space or a delimiter that can follow a number.
func endsNumber(c byte) bool {
	return c <= ' ' || c == ',' || c == ';' || c == '}'
}
