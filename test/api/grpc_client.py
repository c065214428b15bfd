"""A gRPC client in Python, generated from the schema: it reads calls from its
standard input, one JSON object on a line, and writes their answers.

    {"method": "petrel.v1.Service/Method", "token": "…", "request": "base64"}
    {"response": "base64"}   or   {"code": "no_user", "message": "…"}

Started as: grpc_client.py HOST:PORT ADMIN_HOST:PORT PROTO_DIR
"""

import base64
import importlib
import json
import os
import sys
import tempfile

import grpc
from grpc_tools import protoc


def generate(schema):
    """Generates the modules of the schema into a folder and loads them."""
    out = tempfile.mkdtemp()
    names = sorted(n for n in os.listdir(os.path.join(schema, "petrel/v1")) if n.endswith(".proto"))
    args = ["protoc", "-I", schema, "--python_out=" + out] + [os.path.join(schema, "petrel/v1", n) for n in names]
    if protoc.main(args) != 0:
        sys.exit("protoc failed")
    sys.path.insert(0, out)
    return [importlib.import_module("petrel.v1." + n[: -len(".proto")] + "_pb2") for n in names]


def methods(modules):
    found = {}
    for module in modules:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                found[service.full_name + "/" + method.name] = method
    return found


def main():
    address, admin_address, schema = sys.argv[1:]
    from google.protobuf.message_factory import GetMessageClass

    known = methods(generate(schema))
    channel, admin = grpc.insecure_channel(address), grpc.insecure_channel(admin_address)
    for line in sys.stdin:
        call = json.loads(line)
        method = known[call["method"]]
        request = GetMessageClass(method.input_type).FromString(base64.b64decode(call["request"]))
        answer_class = GetMessageClass(method.output_type)
        metadata = [("authorization", "Bearer " + call["token"])] if call["token"] else []
        operators = call["method"].startswith(("petrel.v1.AdminService/", "petrel.v1.OperatorService/", "petrel.v1.SetupService/"))
        invoke = (admin if operators else channel).unary_unary(
            "/" + call["method"],
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=answer_class.FromString,
        )
        try:
            answer = invoke(request, metadata=metadata, timeout=20)
            out = {"response": base64.b64encode(answer.SerializeToString()).decode()}
        except grpc.RpcError as e:
            trailers = {k: v for k, v in list(e.initial_metadata() or []) + list(e.trailing_metadata() or [])}
            out = {"code": trailers.get("petrel-error", ""), "message": f"{e.code()}: {e.details()}"}
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
