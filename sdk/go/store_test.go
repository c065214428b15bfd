package petrel

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// suite is what every store has to do.
func suite(t *testing.T, open func() *Store, reopen bool) {
	t.Helper()
	s := open()
	want := map[string]string{}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var rows []Row
		for range 1 + r.IntN(5) {
			k := fmt.Sprint("k", r.IntN(40))
			if r.IntN(3) == 0 {
				rows = append(rows, Row{k, nil})
				delete(want, k)
			} else {
				v := string(make([]byte, r.IntN(100))) + k
				rows = append(rows, Row{k, []byte(v)})
				want[k] = v
			}
		}
		if err := s.Write(rows); err != nil {
			t.Fatal(err)
		}
		if reopen && r.IntN(20) == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("rows: got %v, want %v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	rows, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.Key] = string(r.Value)
	}
	return out
}

func openFile(t *testing.T, path string) *Store {
	t.Helper()
	s, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoresKeepTheLastValueOfEachKey(t *testing.T) {
	t.Run("Memory", func(t *testing.T) { suite(t, NewMemory, false) })
	t.Run("File", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store")
		suite(t, func() *Store { return openFile(t, path) }, true)
	})
}

// TestFileCutAnywhereKeepsWholeWrites cuts the file behind every byte, and once
// more with rubbish in the place of what was cut off.
func TestFileCutAnywhereKeepsWholeWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	s := openFile(t, path)
	want := map[string]string{}
	states := map[int64]map[string]string{int64(len(fileHeader)): {}} // by size of the file
	ends := []int64{int64(len(fileHeader))}
	for i := range 12 {
		rows := []Row{{fmt.Sprint("a", i%3), []byte(fmt.Sprint(i))}, {fmt.Sprint("b", i-2), nil}, {fmt.Sprint("b", i), []byte{}}}
		if err := s.Write(rows); err != nil {
			t.Fatal(err)
		}
		want[rows[0].Key], want[rows[2].Key] = fmt.Sprint(i), ""
		delete(want, rows[1].Key)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		states[info.Size()] = maps.Clone(want)
		ends = append(ends, info.Size())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		end := ends[0]
		for _, e := range ends {
			if e <= int64(cut) {
				end = e
			}
		}
		for _, rubbish := range [][]byte{nil, bytes.Repeat([]byte{0xa5}, 64), make([]byte, 64)} {
			if cut < len(fileHeader) && rubbish != nil {
				continue // the header is durable before anything else is written
			}
			torn := filepath.Join(dir, "torn")
			if err := os.WriteFile(torn, append(whole[:cut:cut], rubbish...), 0o600); err != nil {
				t.Fatal(err)
			}
			s := openFile(t, torn)
			if got := rowsOf(t, s); !maps.Equal(got, states[end]) {
				t.Fatalf("cut behind byte %d: got %v, want %v", cut, got, states[end])
			}
			if err := s.Write([]Row{{"new", []byte("x")}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openFile(t, torn)
			if got := rowsOf(t, s); got["new"] != "x" || len(got) != len(states[end])+1 {
				t.Fatalf("cut behind byte %d, then written: got %v", cut, got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFileIsCompacted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := openFile(t, path)
	value := bytes.Repeat([]byte("x"), 10<<10)
	for i := range 3000 { // 30 MB in 50 rows
		if err := s.Write([]Row{{fmt.Sprint(i % 50), append(value, fmt.Sprint(i)...)}}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 6<<20 {
		t.Errorf("size with 0.5 MB of rows: got %d, %v", info.Size(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openFile(t, path)
	got := rowsOf(t, s)
	for i := range 50 {
		if want := string(value) + fmt.Sprint(2950+i); got[fmt.Sprint(i)] != want {
			t.Errorf("row %d after compactions: got %d bytes that end in %.5s", i, len(got[fmt.Sprint(i)]), got[fmt.Sprint(i)])
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileBelongsToOneAndIsOfItsKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := openFile(t, path)
	if _, err := OpenFile(path); err == nil {
		t.Error("a store was opened twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Write([]Row{{"a", nil}}); err == nil {
		t.Error("a closed store was written to")
	}
	if err := os.WriteFile(path, []byte("something else altogether"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path); err == nil {
		t.Error("another file was opened as a store")
	}
}
