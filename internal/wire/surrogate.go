package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf16"
)

// halfPair returns the path of a text with the escape of a lone surrogate, such as \ud800; "" if there is none,
// or only in a list or below the third level. Of several fields it takes the first by name. It is called for
// frames that protojson has refused, because the error of protojson names no field.
func halfPair(b []byte) string {
	if !bytes.Contains(b, []byte(`\ud`)) && !bytes.Contains(b, []byte(`\uD`)) {
		return ""
	}
	return halfPairIn("", bytes.TrimSpace(b), 3) // the body, its field, and what is in that
}

func halfPairIn(name string, b json.RawMessage, depth int) string {
	if len(b) == 0 || b[0] != '{' {
		if len(b) > 0 && b[0] == '"' && loneSurrogate(b) {
			return name
		}
		return ""
	}
	var fields map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(b, &fields) != nil {
		return ""
	}
	if name != "" {
		name += "."
	}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if found := halfPairIn(name+k, fields[k], depth-1); found != "" {
			return found
		}
	}
	return ""
}

// loneSurrogate reports whether a string of JSON has the escape of half a surrogate pair.
func loneSurrogate(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		one, ok := escapedUnit(b[i:])
		if !ok || !utf16.IsSurrogate(one) {
			i++ // the escaped character is no backslash of its own
			continue
		}
		if other, ok := escapedUnit(b[i+6:]); !ok || utf16.DecodeRune(one, other) == '\uFFFD' {
			return true
		}
		i += 11
	}
	return false
}

// escapedUnit reads the escape \u at the beginning of s, which is 6 bytes long.
func escapedUnit[T string | []byte](s T) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	c, ok := rune(0), true
	for i := 2; i < 6; i++ {
		digit := hexDigits[s[i]]
		c, ok = c<<4|rune(digit), ok && digit < 16
	}
	return c, ok
}

// hexDigits has the values of the hexadecimal digits, and 16 for all other bytes.
var hexDigits = func() (v [256]uint8) {
	for c := range v {
		v[c] = 16
	}
	for i := range uint8(16) {
		v["0123456789abcdef"[i]], v["0123456789ABCDEF"[i]] = i, i
	}
	return v
}()
