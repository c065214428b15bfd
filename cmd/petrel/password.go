package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// password asks for a password on the terminal, without showing it. If the standard input is no terminal, it
// reads one line from there.
func (c *cli) password(prompt string) (string, error) {
	if !readsTerminal(c.in) {
		return readLine(c.in)
	}
	f := c.in.(*os.File)
	fmt.Fprintf(c.err, "%s: ", prompt)
	b, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(c.err)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(b), nil
}

// newPassword asks for a password twice on a terminal; otherwise it reads one line. An empty password is an error of
// usage, and so are two that differ.
func (c *cli) newPassword(prompt string) (string, error) {
	first, err := c.password(prompt)
	if err != nil || first == "" {
		return "", or(err, usage("there is no password", "type one, or give it as a line of the standard input"))
	}
	if readsTerminal(c.in) {
		again, err := c.password("once more")
		if err != nil {
			return "", err
		}
		if again != first {
			return "", usage("the two passwords differ", "type the same one twice")
		}
	}
	return first, nil
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// readLine reads r up to the end of a line, and not a byte more. It returns the line without its end.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var b [1]byte
	for {
		n, err := r.Read(b[:])
		if n == 1 && b[0] != '\n' {
			line = append(line, b[0])
			continue
		}
		if n == 1 || err == io.EOF {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
	}
}
