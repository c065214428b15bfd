"""What the server reads beyond /openapi.json, for schemathesis.

The description has the one form that clients write, so that generated clients have simple types. The server reads the
other forms of proto3 JSON as well (P-1.4): null as the default, numbers as texts and texts as numbers, enums by their
number. schemathesis would call that a wrong request that was taken.
"""
import schemathesis

UINT32_TEXT = "^(0|[1-9][0-9]{0,8})$"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    seen = set()
    for path in raw_schema["paths"].values():
        widen(path["post"]["requestBody"]["content"]["application/json"]["schema"], schemas, seen)


def widen(schema, schemas, seen):
    """Widens the fields of the type that schema refers to, and those of its parts."""
    name = type_of(schema.get("items", schema))
    if name is None or name in seen or "properties" not in schemas[name]:
        return
    seen.add(name)
    needed = schemas[name].get("required", [])
    for key, field in schemas[name]["properties"].items():
        widen(field, schemas, seen)
        forms = other_forms(name, key, field, schemas)
        if key not in needed:
            forms.append({"type": "null"})  # a field that is needed and null is as one that is left out
        if forms:
            schemas[name]["properties"][key] = {"anyOf": [field, *forms]}


def other_forms(name, key, field, schemas):
    whole = schemas[type_of(field)] if type_of(field) else field
    if whole.get("format") in ("int64", "uint64"):
        least = 1 if whole["pattern"].startswith("^[1-9]") else 0
        return [{"type": "integer", "maximum": 1 << 30} if whole["format"] == "int64" else {"type": "integer", "minimum": least}]
    if whole.get("type") == "integer":
        return [{"type": "string", "pattern": UINT32_TEXT}]
    if (name, key) == ("MemberRef", "role"):
        return [{"type": ["string", "integer"]}]  # an unknown role is none
    if "enum" in whole and type_of(field):
        return [{"type": "integer", "enum": list(range(len(whole["enum"])))}]
    if (name, key) == ("SetRoleRequest", "role"):
        return [{"type": "integer", "enum": [1, 2]}]
    return []


def type_of(schema):
    return schema["$ref"].rsplit("/", 1)[-1] if "$ref" in schema else None
