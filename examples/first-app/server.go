// The back end of a shop whose customers chat: go run server.go
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	petrel = cmp.Or(os.Getenv("PETREL_SERVER"), "http://127.0.0.1:8080")
	key    = readKey(cmp.Or(os.Getenv("PETREL_KEY_FILE"), "shop.key"))
	name   = regexp.MustCompile(`^[\w.-]{1,64}$`)
)

func main() {
	http.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "user", Value: url.QueryEscape(r.FormValue("user")), HttpOnly: true,
			SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	http.HandleFunc("POST /chat-token", forUser(chatToken))
	http.HandleFunc("GET /style.css", func(w http.ResponseWriter, _ *http.Request) {
		page(w, "style.css", "", http.StatusOK)
	})
	http.HandleFunc("GET /", forUser(func(w http.ResponseWriter, r *http.Request, user string) {
		page(w, cmp.Or(strings.TrimPrefix(path.Base(r.URL.Path), "/"), "index.html"), user, http.StatusOK)
	}))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8000"), nil))
}

// forUser says who is logged in. Your own login stands here: anybody can forge this cookie.
func forUser(f func(w http.ResponseWriter, r *http.Request, user string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("user")
		if err != nil || !name.MatchString(c.Value) {
			page(w, "login.html", "", http.StatusUnauthorized)
			return
		}
		f(w, r, c.Value)
	}
}

// chatToken logs a device of the user in, and passes on what the chat server answers.
func chatToken(w http.ResponseWriter, r *http.Request, user string) {
	var asked struct {
		Device json.RawMessage `json:"device"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, _ := json.Marshal(map[string]any{"user": user, "device": asked.Device})
	mint, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, petrel+"/petrel.v1.AdminService/MintToken",
		bytes.NewReader(body))
	mint.Header.Set("Authorization", "Bearer "+key)
	mint.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(mint)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if answer.StatusCode != http.StatusOK {
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = io.Copy(w, answer.Body)
}

func page(w http.ResponseWriter, name, user string, status int) {
	b, err := os.ReadFile(filepath.Join("pages", name))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.WriteHeader(status)
	_, _ = strings.NewReplacer("{{user}}", user, "{{server}}", petrel).WriteString(w, string(b))
}

func readKey(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
