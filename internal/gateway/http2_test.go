package gateway

import (
	"net"
	"testing"

	"golang.org/x/net/http2"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// One connection of HTTP/2 makes the server hold little.
func TestOneConnectionOfHTTP2IsBounded(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	nc, err := net.Dial("tcp", s.HTTPAddr().String())
	must(t, err)
	defer func() { _ = nc.Close() }()
	must(t, nc.SetDeadline(eventually.Deadline()))
	_, err = nc.Write([]byte(http2.ClientPreface))
	must(t, err)
	f := http2.NewFramer(nc, nc)
	must(t, f.WriteSettings())
	settings, window := map[http2.SettingID]uint32{}, uint32(65535) // RFC 9113, 6.9.2
	for len(settings) == 0 || window == 65535 {
		fr, err := f.ReadFrame()
		must(t, err)
		switch fr := fr.(type) {
		case *http2.SettingsFrame:
			must(t, fr.ForeachSetting(func(s http2.Setting) error { settings[s.ID] = s.Val; return nil }))
		case *http2.WindowUpdateFrame:
			window += fr.Increment
		}
	}
	if n := settings[http2.SettingMaxConcurrentStreams]; n != 100 {
		t.Errorf("%d streams at once", n)
	}
	if n := settings[http2.SettingMaxHeaderListSize]; n == 0 || n > 32<<10 {
		t.Errorf("%d bytes of headers", n)
	}
	if n := settings[http2.SettingMaxFrameSize]; n != 16<<10 {
		t.Errorf("%d bytes of a frame", n)
	}
	if n := settings[http2.SettingInitialWindowSize]; n != 64<<10 || window > 256<<10 {
		t.Errorf("%d bytes that are not read of one stream, %d of all", n, window)
	}
}

// A frame that is larger than the server has said ends its connection (RFC 9113, 4.2), whatever
// kind of frame it is: without that, each connection would make the server hold up to 1 MiB.
func TestLargeFramesOfHTTP2AreRefused(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	for _, kind := range []http2.FrameType{http2.FrameHeaders, http2.FrameData, http2.FrameType(0xee)} {
		nc, err := net.Dial("tcp", s.HTTPAddr().String())
		must(t, err)
		defer func() { _ = nc.Close() }()
		must(t, nc.SetDeadline(eventually.Deadline()))
		_, err = nc.Write([]byte(http2.ClientPreface))
		must(t, err)
		f := http2.NewFramer(nc, nc)
		must(t, f.WriteSettings())
		must(t, f.WriteRawFrame(kind, http2.FlagHeadersEndHeaders, 1, make([]byte, 16<<10+1)))
		for {
			fr, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("%v of 16 KiB and a byte: %v before a GOAWAY", kind, err)
			}
			if fr, ok := fr.(*http2.GoAwayFrame); ok {
				if fr.ErrCode != http2.ErrCodeFrameSize {
					t.Errorf("%v of 16 KiB and a byte: %v", kind, fr.ErrCode)
				}
				break
			}
		}
	}
}
