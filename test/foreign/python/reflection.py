"""A gRPC client that has only the address of a Petrel server and a key: it takes the schema from the server.

Started as: reflection.py HOST:PORT KEY
"""
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

TIMEOUT = 60  # seconds: only a fault meets it


def main():
    address, key = sys.argv[1:]
    channel = grpc.insecure_channel(address)
    database = ProtoReflectionDescriptorDatabase(channel)
    services = database.get_services()
    assert "petrel.v1.AdminService" in services, services
    pool = DescriptorPool(database)
    methods = {f"{s}/{m.name}": m for s in services if s.startswith("petrel.") for m in pool.FindServiceByName(s).methods}

    def call(name, **fields):
        method = methods[name]
        invoke = channel.unary_unary("/" + name, GetMessageClass(method.input_type).SerializeToString, GetMessageClass(method.output_type).FromString)
        return invoke(GetMessageClass(method.input_type)(**fields), metadata=[("authorization", "Bearer " + key)], timeout=TIMEOUT)

    users = [u.user for u in call("petrel.v1.AdminService/ListUsers", prefix="al").users]
    assert users == ["alice"], users
    try:
        found = call("petrel.v1.AdminService/GetUser", user="nobody")
        sys.exit(f"nobody is {found}")
    except grpc.RpcError as e:
        trailers = dict([*e.initial_metadata(), *e.trailing_metadata()])
        assert (e.code(), trailers["petrel-error"]) == (grpc.StatusCode.NOT_FOUND, "no_user"), (e, trailers)

    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=TIMEOUT) == b"\x08\x01", "the server is not SERVING"
    print(len(methods), "methods")


main()
