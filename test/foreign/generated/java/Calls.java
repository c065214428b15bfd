import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.AccountServiceApi;
import org.openapitools.client.api.AdminServiceApi;
import org.openapitools.client.api.ConversationServiceApi;
import org.openapitools.client.api.MessageServiceApi;
import org.openapitools.client.model.*;

/** Calls methods of a Petrel server with the client that openapi-generator made of /openapi.json. */
public class Calls {
    static final String ANN = "java.ann", BEN = "java.ben", CAT = "java.cat";

    public static void main(String[] args) throws Exception {
        var admin = new AdminServiceApi(as("PETREL_ADMIN", System.getenv("PETREL_ADMIN_KEY")));
        var made = admin.adminServiceCreateUsers(new CreateUsersRequest().users(List.of(ANN, BEN, CAT)));
        same(made.getTokens().stream().map(UserToken::getUser).toList(), List.of(ANN, BEN, CAT));
        var minted = admin.adminServiceMintToken(new MintTokenRequest().user(ANN).device(new DeviceRef().id("laptop").name("Ann's")));

        var first = admin.adminServiceListUsers(new ListUsersRequest().prefix("java.").limit(2));
        same(first.getUsers().stream().map(UserInfo::getUser).toList(), List.of(ANN, BEN));
        same(first.getMore(), true);
        var second = admin.adminServiceListUsers(new ListUsersRequest().prefix("java.").limit(2).after(BEN));
        same(second.getUsers().stream().map(UserInfo::getUser).toList(), List.of(CAT));
        same(second.getMore(), null);

        var hello = new Send().clientMsgId(newId()).user(BEN).text("hello 海燕");
        var ack = admin.adminServiceSendAs(new SendAsRequest().from(ANN).send(hello));
        same(ack.getSeq(), "1");

        // From here on as Ann.
        var ann = as("PETREL_HTTP", minted.getAccessToken());
        var messages = new MessageServiceApi(ann);
        var again = new Send().clientMsgId(newId()).conv(ack.getConv()).after(ack.getSeq()).text("how are you?");
        same(messages.messageServiceSend(again).getSeq(), "2");
        same(messages.messageServiceSend(again).getSeq(), "2");
        var page = messages.messageServiceGetHistory(new GetHistory().conv(ack.getConv()));
        same(page.getMessages().stream().map(m -> m.getSeq() + " " + m.getFrom() + " " + m.getText()).toList(),
            List.of("1 " + ANN + " hello 海燕", "2 " + ANN + " how are you?"));

        var account = new AccountServiceApi(ann);
        account.accountServiceChangeSettings(new ChangeSettingsRequest().values(Map.of("theme", "dark")));
        var kept = account.accountServiceGetSettings(new GetSettingsRequest());
        same(kept.getSettings().stream().map(Settings::getValues).toList(), List.of(Map.of("theme", "dark")));

        var conversations = new ConversationServiceApi(ann);
        var group = conversations.conversationServiceCreateGroup(new CreateGroupRequest().title("boat").users(List.of(BEN, CAT)));
        conversations.conversationServiceSetRole(new SetRoleRequest().conv(group.getConv()).user(CAT).role(SetRoleRequest.RoleEnum.ROLE_ADMIN));
        var members = conversations.conversationServiceListMembers(new ListMembersRequest().conv(group.getConv()));
        same(members.getMembers().stream().map(m -> m.getUser() + " " + m.getRole()).toList(),
            List.of(ANN + " ROLE_OWNER", BEN + " ROLE_MEMBER", CAT + " ROLE_ADMIN"));

        var refused = refusal(() -> admin.adminServiceGetUser(new AdminGetUserRequest().user("java.nobody")));
        same(refused.getCode() + " " + problem(refused).getPetrelCode(), "404 no_user");
        same(refused.getResponseHeaders().firstValue("Petrel-Error").get(), "no_user");
        var stranger = new AccountServiceApi(as("PETREL_HTTP", "pt_default.ann.wrong"));
        same(problem(refusal(() -> stranger.accountServiceGetAccount(Map.of()))).getPetrelCode(), "unauthenticated");
    }

    /** A client of the server whose URL is in a variable, which calls with a token or key. */
    static ApiClient as(String urlVariable, String credential) {
        var client = new ApiClient();
        client.updateBaseUri(System.getenv(urlVariable));
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + credential));
        return client;
    }

    static String newId() {
        return UUID.randomUUID().toString();
    }

    interface Call {
        Object make() throws ApiException;
    }

    static ApiException refusal(Call call) {
        try {
            throw new AssertionError("not refused: " + call.make());
        } catch (ApiException e) {
            return e;
        }
    }

    static Problem problem(ApiException e) throws Exception {
        return ApiClient.createDefaultObjectMapper().readValue(e.getResponseBody(), Problem.class);
    }

    static void same(Object got, Object want) {
        if (got == null ? want != null : !got.equals(want)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }
}
