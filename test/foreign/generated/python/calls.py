"""Calls methods of a Petrel server with the client that openapi-python-client made of /openapi.json."""
import os
import secrets

from generated import AuthenticatedClient
from generated.api.account_service import account_service_change_settings as change_settings
from generated.api.account_service import account_service_get_account as get_account
from generated.api.account_service import account_service_get_settings as get_settings
from generated.api.admin_service import admin_service_create_users as create_users
from generated.api.admin_service import admin_service_get_user as get_user
from generated.api.admin_service import admin_service_list_users as list_users
from generated.api.admin_service import admin_service_mint_token as mint_token
from generated.api.admin_service import admin_service_send_as as send_as
from generated.api.conversation_service import conversation_service_create_group as create_group
from generated.api.conversation_service import conversation_service_list_members as list_members
from generated.api.conversation_service import conversation_service_set_role as set_role
from generated.api.message_service import message_service_get_history as get_history
from generated.api.message_service import message_service_send as send
from generated.models import (
    AdminGetUserRequest,
    ChangeSettingsRequest,
    ChangeSettingsRequestValues,
    CreateGroupRequest,
    CreateUsersRequest,
    DeviceRef,
    GetAccountRequest,
    GetHistory,
    GetSettingsRequest,
    ListMembersRequest,
    ListUsersRequest,
    MintTokenRequest,
    Problem,
    Role,
    Send,
    SendAsRequest,
    SetRoleRequest,
    SetRoleRequestRole,
)

ANN, BEN, CAT = "python.ann", "python.ben", "python.cat"


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def connect(url_variable, credential):
    return AuthenticatedClient(os.environ[url_variable], credential, timeout=60)  # seconds: only a fault meets it


def main():
    operator = connect("PETREL_ADMIN", os.environ["PETREL_ADMIN_KEY"])
    made = create_users.sync(client=operator, body=CreateUsersRequest(users=[ANN, BEN, CAT]))
    same([(t.user, t.created) for t in made.tokens], [(ANN, True), (BEN, True), (CAT, True)])
    minted = mint_token.sync(client=operator, body=MintTokenRequest(user=ANN, device=DeviceRef(id="laptop", name="Ann's")))

    first = list_users.sync(client=operator, body=ListUsersRequest(prefix="python.", limit=2))
    second = list_users.sync(client=operator, body=ListUsersRequest(prefix="python.", limit=2, after=first.users[-1].user))
    same([u.user for u in first.users] + [u.user for u in second.users], [ANN, BEN, CAT])
    same((first.more, bool(second.more)), (True, False))

    ack = send_as.sync(client=operator, body=SendAsRequest(from_=ANN, send=Send(client_msg_id=secrets.token_hex(16), user=BEN, text="hello 海燕")))
    same(ack.seq, "1")

    # From here on as Ann.
    ann = connect("PETREL_HTTP", minted.access_token)
    again = Send(client_msg_id=secrets.token_hex(16), conv=ack.conv, after=ack.seq, text="how are you?")
    same([send.sync(client=ann, body=again).seq for _ in range(2)], ["2", "2"])
    page = get_history.sync(client=ann, body=GetHistory(conv=ack.conv))
    same([(m.seq, m.from_, m.text) for m in page.messages], [("1", ANN, "hello 海燕"), ("2", ANN, "how are you?")])

    values = ChangeSettingsRequestValues()
    values["theme"] = "dark"
    change_settings.sync(client=ann, body=ChangeSettingsRequest(values=values))
    kept = get_settings.sync(client=ann, body=GetSettingsRequest())
    same([s.values["theme"] for s in kept.settings], ["dark"])

    group = create_group.sync(client=ann, body=CreateGroupRequest(title="boat", users=[BEN, CAT]))
    set_role.sync(client=ann, body=SetRoleRequest(conv=group.conv, user=CAT, role=SetRoleRequestRole.ROLE_ADMIN))
    members = list_members.sync(client=ann, body=ListMembersRequest(conv=group.conv))
    same([(m.user, m.role) for m in members.members], [(ANN, Role.ROLE_OWNER), (BEN, Role.ROLE_MEMBER), (CAT, Role.ROLE_ADMIN)])

    refused = get_user.sync_detailed(client=operator, body=AdminGetUserRequest(user="python.nobody"))
    assert isinstance(refused.parsed, Problem), refused
    same((refused.status_code, refused.parsed.petrel_code, refused.headers["petrel-error"]), (404, "no_user", "no_user"))
    stranger = connect("PETREL_HTTP", "pt_default.ann.wrong")
    same(get_account.sync(client=stranger, body=GetAccountRequest()).petrel_code, "unauthenticated")

    # A code of a later server is an error like others.
    later = {"code": "unknown", "petrelCode": "of_a_later_version", "message": "", "docs": "", "details": []}
    same(Problem.from_dict(later).petrel_code, "of_a_later_version")


main()
