package bench

// pages is a slice that grows without being copied, but for its first page,
// which is as long as it must be; index 0 and above.
type pages[T any] struct{ page [][]T }

const pageLen = 4096

func (p *pages[T]) at(i uint64) *T {
	n := int(i / pageLen)
	for n >= len(p.page) {
		p.page = append(p.page, nil)
	}
	if k := i % pageLen; n == 0 && k >= uint64(len(p.page[0])) {
		first := make([]T, min(pageLen, max(32, 2*k)))
		copy(first, p.page[0])
		p.page[0] = first
	}
	if p.page[n] == nil {
		p.page[n] = make([]T, pageLen)
	}
	return &p.page[n][i%pageLen]
}
