package bench

import (
	"os"
	"syscall"
	"testing"
)

// The memory that bytes_per_connection compares is what a process allocates, not the pages of its files.
func TestAllocatedMemoryCountsTouchedPages(t *testing.T) {
	const size = 64 << 20
	_, before := processMemory(os.Getpid())
	block, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += os.Getpagesize() {
		block[i] = 1
	}
	_, after := processMemory(os.Getpid())
	if err := syscall.Munmap(block); err != nil {
		t.Error(err)
	}
	if before == 0 || after < before+size/2 {
		t.Errorf("%d bytes before, %d after touching %d more", before, after, size)
	}
}
