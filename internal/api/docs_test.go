package api

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Spec: P-12.1.
func TestDescriptionHasEveryMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		res, body := w.do("GET", "/openapi.json", nil, nil)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", res.Status, res.Header)
		}
		var d struct {
			OpenAPI string
			Paths   map[string]map[string]struct {
				OperationID, Description string
				Security                 []map[string][]string
				RequestBody              struct {
					Content map[string]struct{ Example json.RawMessage }
				}
				Responses map[string]json.RawMessage
				Scope     string `json:"x-scope"`
			}
			Components struct {
				Schemas         map[string]json.RawMessage
				SecuritySchemes map[string]json.RawMessage
			}
		}
		w.must(json.Unmarshal([]byte(body), &d))
		if !strings.HasPrefix(d.OpenAPI, "3.1") || len(d.Paths) != len(table) || d.Components.SecuritySchemes["accessToken"] == nil || d.Components.Schemas["Problem"] == nil {
			t.Errorf("version %s, %d paths of %d methods", d.OpenAPI, len(d.Paths), len(table))
		}
		for name, m := range schema() {
			op := d.Paths["/"+name]["post"]
			kind, scope := Credential(name)
			scheme := map[string]string{"token": "accessToken", "key": "adminKey"}[kind]
			if scheme == "" && len(op.Security) != 0 || scheme != "" && (len(op.Security) != 1 || op.Security[0][scheme] == nil) || op.Scope != scope {
				t.Errorf("%s asks for %v and the scope %q", name, op.Security, op.Scope)
			}
			if op.Description == "" || op.Responses["200"] == nil || op.Responses["default"] == nil {
				t.Errorf("%s: %+v", name, op)
			}
			example := op.RequestBody.Content["application/json"].Example
			if err := protojson.Unmarshal(example, dynamicpb.NewMessage(m.Input())); err != nil {
				t.Errorf("%s: example %s: %v", name, example, err)
			}
		}
		for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if d.Components.Schemas[ref[1]] == nil {
				t.Errorf("there is no type %s", ref[1])
			}
		}
	})
}

// A field has the one form that clients write, and a code may be one of a later server. With more,
// generators made a type of its own for each number, and clients that failed at a new code. Spec: P-1.4.
func TestDescriptionHasOneFormOfEachField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, body := w.do("GET", "/openapi.json", nil, nil)
		var d struct {
			Components struct{ Schemas map[string]map[string]any }
		}
		w.must(json.Unmarshal([]byte(body), &d))
		for name, s := range d.Components.Schemas {
			fields, _ := s["properties"].(map[string]any) // none of an enum
			for field, v := range fields {
				f, _ := v.(map[string]any)
				kind, one := f["type"].(string)
				if ref := f["$ref"]; !one && ref == nil || kind == "integer" && (f["format"] == "int64" || f["format"] == "uint64") {
					t.Errorf("%s.%s is %v", name, field, f)
				}
			}
		}
		if codes := d.Components.Schemas["ErrorCode"]; codes["type"] != "string" || codes["enum"] != nil {
			t.Errorf("error codes are %v", codes)
		}
	})
}

// The pages say of a part of the schema that no server has yet that it is coming.
func TestDocsSayWhatIsComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, page := w.do("GET", "/docs", nil, nil)
		_, described := w.do("GET", "/openapi.json", nil, nil)
		files, err := filepath.Glob("../../proto/petrel/v1/*.proto")
		w.must(err)
		found := 0
		for _, name := range files {
			b, err := os.ReadFile(name)
			w.must(err)
			for _, said := range regexp.MustCompile(`Coming: (\w+)`).FindAllString(string(b), -1) {
				found++
				if !strings.Contains(page, said) || !strings.Contains(described, said) {
					t.Errorf("%s says %q, which is not on the page and in the description", name, said)
				}
			}
		}
		if found == 0 {
			t.Error("nothing is coming: this test looks for the wrong word")
		}
	})
}

func TestDocsShowEveryMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		res, body := w.do("GET", "/docs", nil, nil)
		if csp := res.Header.Get("Content-Security-Policy"); res.StatusCode != 200 || !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s %v", res.Status, res.Header)
		}
		servers := map[bool]string{false: "$PETREL", true: "$PETREL_ADMIN"}
		scopeOf := func(name string) string { _, scope := Credential(name); return scope }
		for name := range schema() {
			if !strings.Contains(body, `<code class="path">POST /`+name+`</code>`) || !strings.Contains(body, "curl "+servers[table[name].inside || slices.Contains([]string{"server", "backup", "admin"}, scopeOf(name))]+"/"+name) {
				t.Errorf("%s is not on the page", name)
			}
		}
		if strings.Contains(body, "ZgotmplZ") || strings.Contains(body, "<script") || strings.Contains(body, "src=") || strings.Count(body, "<style>") != 1 {
			t.Error("the page has a script, something from elsewhere, or what the template refused")
		}
		ids := map[string]bool{}
		for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if ids[id[1]] {
				t.Errorf("%s is twice on the page", id[1])
			}
			ids[id[1]] = true
		}
		for _, to := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if !ids[to[1]] {
				t.Errorf("a link leads to %s, which is not there", to[1])
			}
		}
		style := body[strings.Index(body, "<style>")+len("<style>") : strings.Index(body, "</style>")]
		if style != docsStyle {
			t.Error("the style is not the one whose hash the policy has")
		}
		if res, _ := w.do("GET", "/", nil, nil); res.StatusCode != http.StatusOK || res.Request.URL.Path != "/docs" {
			t.Errorf("/ leads to %s: %s", res.Request.URL, res.Status)
		}
	})
}
