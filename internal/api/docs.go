package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// description is the OpenAPI description of the services, made by make gen.
//
//go:embed openapi.json
var description []byte

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle string

func serveDescription(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(description) // the reader is gone otherwise
}

// docs is the page, made once.
var docs = sync.OnceValues(renderDocs)

func serveDocs(w http.ResponseWriter, _ *http.Request) {
	page, err := docs()
	if err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256([]byte(docsStyle))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(
			sum[:])+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page) // the reader is gone otherwise
}

// What the page shows.
type (
	docPage struct {
		Style    template.CSS
		Services []docService
		Types    []docType
		Errors   []docError
	}
	docService struct {
		Name, Text string
		Methods    []docMethod
	}
	docMethod struct {
		Service, Name, Path, Text, Credential, Scope, Curl string
		Request, Response                                  docType
	}
	docType struct {
		Name, Text string
		Fields     []docField
		Values     []string // of an enum
	}
	docField struct {
		Name, Type, Link, Text string
		Required               bool
	}
	docError struct {
		Code       im.Code
		Text, Hint string
		HTTP       int
		Retryable  bool
	}
)

// openapi is what the page takes from the description; the order of things it
// takes from the schema.
type openapi struct {
	Tags  []struct{ Name, Description string }
	Paths map[string]struct {
		Post struct {
			Description string
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	Components struct {
		Schemas map[string]struct {
			Description string
			Required    []string
			Properties  map[string]struct{ Description string }
		}
	}
}

func renderDocs() ([]byte, error) {
	var o openapi
	if err := json.Unmarshal(description, &o); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	p := docPage{Style: template.CSS(docsStyle)} //nolint:gosec // ours
	seen := map[protoreflect.FullName]bool{}
	for _, t := range o.Tags {
		for _, f := range []protoreflect.FileDescriptor{petrelv1.File_petrel_v1_account_proto,
			petrelv1.File_petrel_v1_conversation_proto, petrelv1.File_petrel_v1_admin_proto,
			petrelv1.File_petrel_v1_operator_proto} {
			if s := f.Services().ByName(protoreflect.Name(t.Name)); s != nil {
				p.Services = append(p.Services, o.service(s, t.Description, &p, seen))
			}
		}
	}
	for _, c := range im.Codes() {
		i := c.Info()
		p.Errors = append(p.Errors, docError{c, i.Text, i.Hint, i.HTTP, i.Retryable})
	}
	tmpl, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, err
	}
	var w bytes.Buffer
	err = tmpl.Execute(&w, &p)
	return w.Bytes(), err
}

func (o *openapi) service(s protoreflect.ServiceDescriptor, text string, p *docPage,
	seen map[protoreflect.FullName]bool) docService {
	d := docService{Name: string(s.Name()), Text: text}
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		path := "/" + string(s.FullName()) + "/" + string(m.Name())
		kind, scope := Credential(path[1:])
		op := o.Paths[path].Post
		d.Methods = append(d.Methods, docMethod{
			Service: d.Name, Name: string(m.Name()), Path: path,
			Text: strings.TrimSuffix(op.Description, " Scope: "+scope+"."), Credential: kind, Scope: scope,
			Curl:    curl(path, kind, inOrder(m.Input(), op.RequestBody.Content["application/json"].Example)),
			Request: o.typ(m.Input()), Response: o.typ(m.Output()),
		})
		for _, t := range []protoreflect.MessageDescriptor{m.Input(), m.Output()} {
			o.parts(t, p, seen)
		}
	}
	return d
}

// parts lists the types that a type is made of.
func (o *openapi) parts(t protoreflect.MessageDescriptor, p *docPage, seen map[protoreflect.FullName]bool) {
	for i := range t.Fields().Len() {
		f := t.Fields().Get(i)
		switch {
		case f.Enum() != nil && !seen[f.Enum().FullName()]:
			seen[f.Enum().FullName()] = true
			d := docType{Name: string(f.Enum().Name()), Text: o.Components.Schemas[string(f.Enum().Name())].Description}
			for j := range f.Enum().Values().Len() {
				d.Values = append(d.Values, string(f.Enum().Values().Get(j).Name()))
			}
			p.Types = append(p.Types, d)
		case f.Message() != nil && !f.IsMap() && !seen[f.Message().FullName()]:
			seen[f.Message().FullName()] = true
			p.Types = append(p.Types, o.typ(f.Message()))
			o.parts(f.Message(), p, seen)
		}
	}
}

func (o *openapi) typ(t protoreflect.MessageDescriptor) docType {
	s := o.Components.Schemas[string(t.Name())]
	d := docType{Name: string(t.Name()), Text: s.Description}
	for i := range t.Fields().Len() {
		f := t.Fields().Get(i)
		x := docField{Name: f.JSONName(), Text: s.Properties[f.JSONName()].Description}
		for _, r := range s.Required {
			x.Required = x.Required || r == x.Name
		}
		switch {
		case f.IsMap():
			x.Type = "map of string"
		case f.Message() != nil:
			x.Link = string(f.Message().Name())
		case f.Enum() != nil:
			x.Link = string(f.Enum().Name())
		default:
			x.Type = jsonType(f.Kind())
		}
		if f.IsList() {
			x.Type = "list of " + x.Type
		}
		d.Fields = append(d.Fields, x)
	}
	return d
}

// jsonType is a kind of field as proto3 JSON writes it. Spec: P-1.4.
func jsonType(k protoreflect.Kind) string {
	switch k {
	case protoreflect.StringKind:
		return "string"
	case protoreflect.BytesKind:
		return "base64"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.Uint64Kind, protoreflect.Int64Kind, protoreflect.Fixed64Kind:
		return "number as string"
	default:
		return "number"
	}
}

// maxLine is how long an example may be on one line, in bytes.
const maxLine = 80

// inOrder is an example with its fields in the order of the schema.
func inOrder(t protoreflect.MessageDescriptor, example []byte) string {
	m := dynamicpb.NewMessage(t)
	if err := protojson.Unmarshal(example, m); err != nil {
		return "{}"
	}
	b, err := protojson.Marshal(m)
	var body bytes.Buffer
	if err == nil {
		err = json.Compact(&body, b)
	}
	if err == nil && body.Len() > maxLine {
		b = bytes.Clone(body.Bytes())
		body.Reset()
		err = json.Indent(&body, b, "  ", "  ")
	}
	if err != nil {
		return "{}"
	}
	return body.String()
}

// curl is a call to copy.
func curl(path, kind, body string) string {
	auth := ""
	switch kind {
	case "token":
		auth = ` -H "authorization: Bearer $TOKEN"`
	case "key":
		auth = ` -H "authorization: Bearer $PETREL_ADMIN_KEY"`
	}
	server := "$PETREL"
	if m := table[path[1:]]; m.forOperators() {
		server = "$PETREL_ADMIN"
	}
	return fmt.Sprintf("curl %s%s%s \\\n  -H 'content-type: application/json' \\\n  -d '%s'", server, path, auth,
		strings.ReplaceAll(body, "'", `'\''`))
}
