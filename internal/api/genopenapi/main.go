// Command genopenapi adds to the generated description of the API: credentials, errors, the bounds of fields
// and an example of each request. Run by make gen: go run ./internal/api/genopenapi IN OUT
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/im"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: genopenapi IN OUT")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// object is a JSON object.
type object = map[string]any

func run(in, out string) error {
	b, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	// Types have short names: there is one package.
	b = bytes.ReplaceAll(b, []byte("#/components/schemas/petrel.v1."), []byte("#/components/schemas/"))
	var doc object
	if err := json.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	schemas := schemasOf(doc)
	doc["info"] = object{
		"title": "Petrel", "version": "1",
		"description": "The API of a Petrel server, in its JSON form. The same methods are served as protobuf, gRPC and gRPC-Web, and, those of users, over the long connection. proto/README.md is the specification. Each field has the form in which it is written; the server reads the other forms of proto3 JSON as well.",
		"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	}
	doc["servers"] = []any{object{"url": "/"}}
	delete(doc, "security")
	for _, t := range list(doc["tags"]) {
		t["description"] = oneLine(t["description"])
	}
	doc["components"] = object{
		"schemas": schemas,
		"securitySchemes": object{
			"accessToken": object{"type": "http", "scheme": "bearer",
				"description": "An access token, pt_…, of AuthService, MintToken or CreateUsers."},
			"adminKey": object{"type": "http", "scheme": "bearer",
				"description": "An admin key, pk_…, of the setup link or CreateKey, with the scope that the method names."},
		},
		"responses": object{"Error": errorResponse()},
		"headers": object{
			"Request-Id": object{"description": "Names the line of the server's log.",
				"schema": object{"type": "string"}},
			"Petrel-Error": object{"description": "The code of the error.",
				"schema": object{"$ref": "#/components/schemas/ErrorCode"}},
			"Retry-After": object{"description": "Seconds to wait, where waiting helps.",
				"schema": object{"type": "integer", "minimum": 0}},
		},
	}
	paths, ok := doc["paths"].(object)
	if !ok {
		return fmt.Errorf("%s has no paths", in)
	}
	for path, item := range paths {
		if err := operation(strings.TrimPrefix(path, "/"), item, schemas); err != nil {
			return err
		}
	}
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return os.WriteFile(out, w.Bytes(), 0o644)
}

// list returns the objects of an array.
func list(v any) (all []object) {
	items, _ := v.([]any) // none, when it is none
	for _, i := range items {
		if o, ok := i.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

func oneLine(v any) string {
	s, _ := v.(string) // empty, when there is none
	return strings.Join(strings.Fields(s), " ")
}

// schemasOf returns the schemas of the types, as proto3 JSON encodes them.
func schemasOf(doc object) object {
	components, _ := doc["components"].(object)
	before, _ := components["schemas"].(object)
	after := object{"Problem": problem(), "Error": errorSchema(), "ErrorCode": errorCodes()}
	for name, v := range before {
		short, ours := strings.CutPrefix(name, "petrel.v1.")
		s, ok := v.(object)
		if !ours || !ok || strings.Contains(short, ".") {
			continue // entries of maps, and what belongs to Connect
		}
		delete(s, "title")
		delete(s, "additionalProperties") // unknown keys are ignored, P-2.7
		if d := oneLine(s["description"]); d != "" {
			s["description"] = d
		}
		props, _ := s["properties"].(object)
		if props == nil {
			props = object{}
		}
		if s["type"] == "object" {
			s["properties"] = props
		}
		// The text names the alternatives: a null beside the field that is set is allowed, which oneOf cannot
		// express.
		for _, o := range list(s["oneOf"]) {
			more, _ := o["properties"].(object)
			for k, v := range more {
				props[k] = v
			}
		}
		delete(s, "oneOf")
		need := required[short]
		if need != nil {
			s["required"] = need
		}
		for k, v := range props {
			if p, ok := v.(object); ok {
				field(short, k, p, slices.Contains(need, any(k)))
			}
		}
		after[short] = s
	}
	return after
}

// field completes one field.
func field(typ, name string, p object, needed bool) {
	delete(p, "title")
	delete(p, "nullable")
	if p["format"] == "byte" {
		delete(p, "format")
		p["contentEncoding"] = "base64"
	}
	number(p, typ == "ServerLimits" || typ == "LimitChange" || typ == "TraceUserResponse" && name == "connectionsLimit")
	if items, ok := p["items"].(object); ok {
		number(items, false)
	}
	if d := oneLine(p["description"]); d != "" {
		p["description"] = d
	}
	if text := texts[name]; text != "" && (p["description"] == nil || p["description"] == "clause P-12.4") {
		p["description"] = text
	}
	if p["type"] == "array" {
		if items, ok := p["items"].(object); ok {
			delete(items, "title")
		}
	}
	if needed && p["type"] == "string" && p["enum"] == nil && typ != "RenameGroupRequest" {
		p["minLength"] = 1
	}
	if needed && p["type"] == "array" {
		p["minItems"] = 1
	}
	for k, v := range bounds[typ+"."+name] {
		if p[k] = v; v == nil {
			delete(p, k)
		}
	}
	if values, ok := p["additionalProperties"].(object); ok {
		delete(values, "title")
	}
}

// number gives a number in a schema the form of JSON: one of 64 bits is a string. All but limits are unsigned.
// Spec: P-1.4.
func number(p object, limit bool) {
	switch {
	case p["format"] == "int64" && limit:
		p["type"], p["pattern"] = "string", limits
	case p["format"] == "int64":
		p["type"], p["format"], p["pattern"] = "string", "uint64", uint64s
	case p["type"] == "integer":
		p["minimum"], p["maximum"] = 0, 1<<32-1
	}
}

// operation completes one method.
func operation(name string, item any, schemas object) error {
	methods, _ := item.(object)
	op, ok := methods["post"].(object)
	if !ok {
		return fmt.Errorf("%s is not posted", name)
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "petrel.v1."), "/")
	op["operationId"] = service + "_" + method
	op["tags"] = []any{service}
	delete(op, "parameters")
	kind, scope := api.Credential(name)
	said := "Scope: " + scope + "." // by the comment in the schema
	text := oneLine(strings.Replace(oneLine(op["description"]), said, "", 1))
	if text == "" {
		return fmt.Errorf("%s has no description", name)
	}
	op["security"] = []any{}
	switch kind {
	case "token":
		op["security"] = []any{object{"accessToken": []any{}}}
	case "key":
		op["security"] = []any{object{"adminKey": []any{}}}
		op["x-scope"] = scope
		text += " " + said
	}
	op["description"] = text
	op["summary"] = text
	if i := strings.Index(text, ". "); i >= 0 {
		op["summary"] = text[:i+1]
	}
	body, err := jsonContent(op["requestBody"])
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	shown := example(body["schema"], schemas)
	body["example"] = shown
	request, _ := body["schema"].(object)
	for _, need := range required[refOf(request)] {
		// nolint:forcetypeassert // it is written below as a text
		if fields, _ := shown.(object); fields[need.(string)] == nil {
			return fmt.Errorf("%s: the example lacks %s, which it needs", name, need)
		}
	}
	responses, _ := op["responses"].(object)
	if good, ok := responses["200"].(object); ok {
		good["description"] = "Done."
		good["headers"] = object{"Request-Id": object{"$ref": "#/components/headers/Request-Id"}}
	}
	responses["4XX"] = object{"$ref": "#/components/responses/Error"}
	responses["default"] = object{"$ref": "#/components/responses/Error"}
	return nil
}

func jsonContent(v any) (object, error) {
	o, _ := v.(object)
	content, _ := o["content"].(object)
	body, ok := content["application/json"].(object)
	if !ok {
		return nil, fmt.Errorf("no JSON in %v", v)
	}
	return body, nil
}

// refOf returns the type that a schema refers to; "" for an inline schema.
func refOf(s object) string {
	ref, _ := s["$ref"].(string)
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// example returns a value of a type.
func example(v any, schemas object) any {
	s, _ := v.(object)
	name := refOf(s)
	if name != "" {
		s, _ = schemas[name].(object)
	}
	if s["type"] != "object" {
		return nil
	}
	props, _ := s["properties"].(object)
	out := object{}
	for k, p := range props {
		if slices.Contains(skipped[name], k) {
			continue
		}
		if e, ok := examples[name+"."+k]; ok {
			out[k] = e
			continue
		}
		p, _ := p.(object)
		if ref := refOf(p); ref != "" && ref != "Role" {
			out[k] = example(p, schemas)
		} else if e, ok := examples[k]; ok && p["type"] != "array" {
			out[k] = e
		} else if items, ok := p["items"].(object); ok && refOf(items) != "" {
			out[k] = []any{example(items, schemas)}
		} else if ok {
			out[k] = []any{"bob"}
		}
	}
	return out
}

func problem() object {
	return object{
		"type":        "object",
		"description": "An error in the form of Connect, with what the catalogue says of it. Branch on petrelCode, which is the header Petrel-Error as well; never on the message. Clause P-12.5.",
		"properties": object{
			"code":       object{"type": "string", "description": "the code of Connect that comes nearest"},
			"petrelCode": object{"$ref": "#/components/schemas/ErrorCode"},
			"message":    object{"type": "string"},
			"hint":       object{"type": "string", "description": "what the reader can do about it"},
			"retryAfterMs": object{"type": "integer", "minimum": 0,
				"description": "where waiting helps: not before that"},
			"docs": object{"type": "string", "format": "uri-reference",
				"description": "where this server explains the code: a path and an anchor"},
			"details": object{"type": "array", "items": object{"type": "object", "properties": object{
				"type":  object{"type": "string", "description": "petrel.v1.Error"},
				"value": object{"type": "string", "contentEncoding": "base64"},
				"debug": object{"$ref": "#/components/schemas/Error"},
			}}},
		},
		"required": []any{"code", "petrelCode", "message", "docs", "details"},
	}
}

func errorSchema() object {
	return object{
		"type": "object", "description": "The error as the catalogue has it. Clause P-2.2.",
		"properties": object{
			"code": object{"$ref": "#/components/schemas/ErrorCode"}, "message": object{"type": "string"},
			"hint": object{"type": "string", "description": "what the reader can do about it"},
			"settled": object{"type": "boolean",
				"description": "about a send: it is not stored and this attempt never will be"},
			"retryable":    object{"type": "boolean", "description": "the same call may succeed later"},
			"retryAfterMs": object{"type": "integer"}, "requestId": object{"type": "string"},
			"head": object{"type": "string", "format": "uint64", "pattern": uint64s},
		},
		"required": []any{"code", "message"},
	}
}

func errorCodes() object {
	var all []any
	for _, c := range im.Codes() {
		all = append(all, string(c))
	}
	// No enum: a generated client would fail at a code that its description does not have.
	return object{"type": "string",
		"description": "A code of proto/errors.yaml. More may come: a client that does not know one acts by settled and retryable.", "x-extensible-enum": all}
}

func errorResponse() object {
	header := func(name string) object { return object{"$ref": "#/components/headers/" + name} }
	return object{
		"description": "An error. The HTTP status is that of its code in the catalogue.",
		"content":     object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}},
		"headers": object{"Request-Id": header("Request-Id"), "Petrel-Error": header("Petrel-Error"),
			"Retry-After": header("Retry-After")},
	}
}
