package app

import (
	"context"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/web"
)

// webChat returns the web chat; nil: this node does not serve it. The
// page needs a node that takes connections and logs people in.
func (a *App) webChat() (*web.Site, error) {
	if c := &a.cfg.Web; c.Enabled && a.cfg.Listen.HTTP != "" && a.node.has(cluster.Gateway) && a.node.has(cluster.API) {
		return web.New(web.Options{Name: c.Name, FrameAncestors: c.FrameAncestors, Gateways: a.allGateways,
			Registration: a.webRegistration, BodyBytes: func() int { return a.hub.Limits().BodyBytes }})
	}
	return nil, nil
}

// allGateways lists the addresses to which a client may be sent, for any user.
func (a *App) allGateways() []string { return a.gateways(im.Account{}) }

// webRegistration returns who may make an account in the tenant of the web chat. If the store
// does not answer, the page offers registration, and the server decides when somebody registers.
func (a *App) webRegistration(ctx context.Context) string {
	info, err := a.users.DescribeTenant(ctx, "")
	if err != nil {
		a.log.WarnContext(ctx, "read registration failed", "err", err)
		return "open"
	}
	switch info.Effective {
	case user.ByInvitation:
		return "invitation"
	case user.Closed:
		return "closed"
	}
	return "open"
}
