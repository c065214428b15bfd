package user_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// Nobody registers a name that people would take for another one, or for the operator.
// Spec: P-11.1.
func TestRegisterRefusesNamesThatLookAlike(t *testing.T) {
	w := people(t)
	w.token("", "Operator.Made")
	for _, u := range []im.User{"alice", "milo", "bo0b"} {
		w.register(u, phone(1))
	}
	try := func(u im.User, shown string) error {
		_, err := w.users.Register(context.Background(), user.Newcomer{User: u, Password: password, DisplayName: shown}, phone(1), home)
		return err
	}
	for _, u := range []im.User{"Alice", "ALICE", "aIice", "a1ice", "rnilo", "Milo", "booB", "BO0b", "operator.made", "0perator.Made"} {
		w.wantCode(string(u), try(u, ""), im.CodeUserExists)
	}
	for _, u := range []im.User{"admin", "Admin", "ADMIN", "system", "SYSTEM", "root", "petrel", "admin1", "_admin_", "supp0rt", "adrnin", "m0derator", "adm1n", "syst3m", "AdmIn",
		"4dmin", "4dm1n1", "_adrnin7", "admln", "0fficial", "5taff", "rnod", "m3", "a11"} {
		w.wantCode(string(u), try(u, ""), im.CodeInvalid)
	}
	for i, shown := range []string{"admin", "Admin", "ＡＤＭＩＮ", "𝐚𝐝𝐦𝐢𝐧", "A d m i n", "System!", "4dm1n", "Adrnin 2", "admin10",
		"Аdmin", "аԁmіn", "ΑDΜΙΝ", "ꓮꓓꓟꓲꓠ", "ᴀᴅᴍɪɴ", "аdмin", "Ѕуѕтем", "Ádmïn", "adm\u200bin", "🅐🅓🅜🅘🅝", "🅰🅳🅼🅸🅽", "🇦🇩🇲🇮🇳", "ⓐⓓⓜⓘⓝ", "ρеτгеⅼ", "ﬀ"} {
		err := try(im.User(fmt.Sprint("shown", i)), shown)
		if shown == "ﬀ" {
			w.no(err)
			continue
		}
		w.wantCode(shown, err, im.CodeInvalid)
	}
	for i, shown := range []string{"Иван Петров", "Адам", "管理员", "Ελένη", "José", "Łukasz", "עדן", "🙂"} {
		w.no(try(im.User(fmt.Sprint("people", i)), shown))
	}
	for _, u := range []im.User{"alicia", "mil", "administratrice", "carol", "ali", "modest", "al5", "3ric", "ad.min", "admin-team"} {
		w.no(try(u, "Somebody Else"))
	}
	for shown, code := range map[string]im.Code{"Аdmin": im.CodeInvalid, "Иван": ""} {
		_, _, err := w.users.UpdateAccount(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, &user.ProfileChange{DisplayName: &shown})
		if code == "" {
			w.no(err)
		} else {
			w.wantCode("a change to "+shown, err, code)
		}
	}
	w.reopen()
	w.wantCode("after a restart", try("ALICE", ""), im.CodeUserExists)
	// In another tenant it is another name. The operator makes users of any name.
	w.token("acme", "alice")
	w.token("", "ALICE")
	w.token("", "admin")
	_, _, err := w.users.UpdateAccount(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "admin"}, shown("Admin"))
	w.no(err)
}
