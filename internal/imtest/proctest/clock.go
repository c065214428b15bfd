package proctest

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Clock steps the wall clock of one process, on amd64. The monotonic clock of the process goes on, as when NTP or
// an operator steps the clock of a machine. The clock of this machine is not stepped.
type Clock struct {
	t      testing.TB
	pid    int
	offset int64 // in the process's memory
}

// clockGettime is machine code that replaces clock_gettime in the vDSO. It asks the kernel, and adds an offset in
// seconds if the clock is CLOCK_REALTIME, which is 0.
var clockGettime = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne to ret
	0x48, 0x8b, 0x0d, 0x06, 0, 0, 0, // mov rcx, [rip+6]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // up to 24 bytes
	0, 0, 0, 0, 0, 0, 0, 0, // offset
}

const offsetAt = 24

// StepClock takes over the wall clock of a process that the caller started. Set then steps it.
func StepClock(t testing.TB, pid int) *Clock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Fatal("the clock of a process is stepped on amd64 only")
	}
	from, to := vdso(t, pid)
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		t.Fatalf("read the vDSO: %v", err)
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatalf("read the vDSO: %v", err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatalf("read the vDSO: %v", err)
	}
	for _, s := range symbols {
		if s.Name != "__vdso_clock_gettime" {
			continue
		}
		at := from + int64(s.Value)
		if int(s.Size) < len(clockGettime) {
			t.Fatalf("the vDSO's clock_gettime has %d bytes, and %d are needed", s.Size, len(clockGettime))
		}
		if _, err := mem.WriteAt(clockGettime, at); err != nil {
			t.Fatalf("replace clock_gettime: %v", err)
		}
		return &Clock{t: t, pid: pid, offset: at + offsetAt}
	}
	t.Fatal("the vDSO has no clock_gettime")
	return nil
}

// Set makes the wall clock of the process wrong by d, in whole seconds, from now on.
func (c *Clock) Set(d time.Duration) {
	c.t.Helper()
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err == nil {
		_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(d/time.Second))), c.offset)
		_ = mem.Close() // the write has taken effect already
	}
	if err != nil {
		c.t.Fatalf("step the clock of process %d: %v", c.pid, err)
	}
}

// vdso returns the first address of the vDSO in the memory of a process, and the address after it.
func vdso(t testing.TB, pid int) (from, to int64) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil {
				t.Fatalf("read %q: %v", lines.Text(), err)
			}
			return from, to
		}
	}
	t.Fatalf("process %d has no vDSO", pid)
	return 0, 0
}
