//! The fake Slack: what every call needs, and the clients that the other tests of the fake use.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::fake::ScriptedFault;
use crate::support::slack::{ADA, APP_TOKEN, CLEO, ChannelKind, Slack, Standing, TEAM, TOKEN};

pub const JSON: &str = "application/json; charset=utf-8";
pub const FORM: &str = "application/x-www-form-urlencoded";

/// A call with JSON, as a client sends it to a method that takes JSON.
pub async fn call(slack: &Slack, method: &str, body: Value) -> Value {
    call_with(slack, TOKEN, method, body).await
}

pub async fn call_with(slack: &Slack, token: &str, method: &str, body: Value) -> Value {
    let request = post(slack, method).bearer_auth(token);
    answer_to(request.header("content-type", JSON).body(body.to_string()))
        .await
        .1
}

/// A call with its arguments in the query, as a client reads.
pub async fn get(slack: &Slack, method: &str, query: &[(&str, &str)]) -> Value {
    let url = format!("{}{method}", slack.api_url());
    let request = reqwest::Client::new().get(url).query(query);
    answer_to(request.bearer_auth(TOKEN)).await.1
}

pub fn post(slack: &Slack, method: &str) -> reqwest::RequestBuilder {
    reqwest::Client::new().post(format!("{}{method}", slack.api_url()))
}

pub async fn answer_to(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.text().await.expect("a body");
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    (status, body)
}

pub fn done(body: Value) -> Value {
    assert_eq!(body["ok"], true, "{body}");
    body
}

/// The name of the error in an answer.
pub fn error(body: &Value) -> &str {
    assert_eq!(body["ok"], false, "{body}");
    body["error"].as_str().expect("an error")
}

/// Posts a text. Gives its `ts`.
pub async fn posts(slack: &Slack, channel: &str, text: &str) -> String {
    let body = json!({"channel": channel, "text": text});
    text_of(&done(call(slack, "chat.postMessage", body).await)["ts"])
}

pub fn text_of(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// A client of Socket Mode.
pub struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    /// Connects and reads the hello.
    pub async fn connect(slack: &Slack) -> Client {
        let mut client = Client::connect_to(&ticket(slack).await)
            .await
            .expect("a connection");
        assert_eq!(client.next().await.expect("a hello")["type"], "hello");
        slack.until_listening();
        client
    }

    pub async fn connect_to(url: &str) -> Option<Client> {
        let connected = tokio_tungstenite::connect_async(url).await;
        connected.ok().map(|(stream, _)| Client(stream))
    }

    pub async fn send(&mut self, value: Value) {
        let sent = self.0.send(Message::Text(value.to_string())).await;
        sent.expect("an open connection");
    }

    pub async fn frame(&mut self) -> Option<Message> {
        let frame = tokio::time::timeout(crate::support::PATIENCE, self.0.next());
        frame.await.expect("something in time")?.ok()
    }

    /// The next message, or none at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.frame().await? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Nothing comes for a while.
    pub async fn is_quiet(&mut self) -> bool {
        let wait = Duration::from_millis(200);
        tokio::time::timeout(wait, self.next()).await.is_err()
    }

    /// The next envelope of this type. It is not acknowledged yet.
    pub async fn envelope(&mut self, kind: &str) -> Value {
        let envelope = self.next().await.expect("an envelope");
        assert_eq!(envelope["type"], kind, "{envelope}");
        envelope
    }

    pub async fn acknowledge(&mut self, envelope: &Value) {
        self.send(json!({"envelope_id": envelope["envelope_id"]}))
            .await;
    }

    /// The next event, acknowledged.
    pub async fn event(&mut self) -> Value {
        let envelope = self.envelope("events_api").await;
        self.acknowledge(&envelope).await;
        envelope["payload"]["event"].clone()
    }
}

/// The address for a new connection.
pub async fn ticket(slack: &Slack) -> String {
    let opened = call_with(slack, APP_TOKEN, "apps.connections.open", json!({})).await;
    text_of(&done(opened)["url"])
}

#[tokio::test]
async fn every_call_needs_a_token_of_its_kind() {
    let slack = Slack::start();
    let anonymous = answer_to(post(&slack, "auth.test")).await;
    assert_eq!(
        anonymous,
        (200, json!({"ok": false, "error": "not_authed"}))
    );
    let wrong = call_with(&slack, "xoxb-wrong", "auth.test", json!({})).await;
    assert_eq!(error(&wrong), "invalid_auth");
    let apps = call_with(&slack, APP_TOKEN, "auth.test", json!({})).await;
    assert_eq!(error(&apps), "not_allowed_token_type");
    let bots = call(&slack, "apps.connections.open", json!({})).await;
    assert_eq!(error(&bots), "not_allowed_token_type");
    // The app-level token counts only in the header, and a bot's in the arguments too.
    let form = post(&slack, "apps.connections.open").header("content-type", FORM);
    let form = answer_to(form.body(format!("token={APP_TOKEN}"))).await.1;
    assert_eq!(error(&form), "invalid_auth");
    let form = post(&slack, "auth.test").header("content-type", FORM);
    let me = done(answer_to(form.body(format!("token={TOKEN}"))).await.1);
    assert_eq!(me["team_id"], TEAM);
    assert_eq!(me["user_id"], slack.bot_user());
    // A token within JSON is none.
    let json = post(&slack, "auth.test").header("content-type", JSON);
    let json = answer_to(json.body(json!({"token": TOKEN}).to_string()))
        .await
        .1;
    assert_eq!(error(&json), "not_authed");
}

#[tokio::test]
async fn tokens_can_be_revoked() {
    let slack = Slack::start();
    slack.revokes_token();
    let revoked = call(&slack, "auth.test", json!({})).await;
    assert_eq!(error(&revoked), "token_revoked");
    slack.uninstalls();
    let gone = call(&slack, "auth.test", json!({})).await;
    assert_eq!(error(&gone), "account_inactive");
    slack.stands(TEAM, Standing::Valid);
    done(call(&slack, "auth.test", json!({})).await);
    slack.app_token_stands(Standing::Revoked);
    let open = call_with(&slack, APP_TOKEN, "apps.connections.open", json!({})).await;
    assert_eq!(error(&open), "token_revoked");
}

#[tokio::test]
async fn calls_need_scopes_and_answers_name_them() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let ts = slack.says(&channel, &ADA, "hello");
    let body = json!({"channel": channel, "timestamp": ts, "name": "eyes"});
    let missing = call(&slack, "reactions.add", body.clone()).await;
    assert_eq!(error(&missing), "missing_scope");
    assert_eq!(missing["needed"], "reactions:write");
    let provided = missing["provided"].as_str().unwrap();
    assert!(provided.contains("chat:write,commands"), "{provided}");
    slack.gives_scope("reactions:write");
    done(call(&slack, "reactions.add", body).await);
    slack.removes_scope("chat:write");
    let text = json!({"channel": channel, "text": "hi"});
    let request = post(&slack, "chat.postMessage")
        .bearer_auth(TOKEN)
        .json(&text);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["x-accepted-oauth-scopes"], "chat:write");
    let has = response.headers()["x-oauth-scopes"].to_str().unwrap();
    assert!(
        has.contains("reactions:write") && !has.contains("chat:write"),
        "{has}"
    );
    // A scope for one kind of channel is none for another.
    let private = slack.private_channel("ops");
    slack.removes_scope("groups:read");
    let info = get(&slack, "conversations.info", &[("channel", &private)]).await;
    assert_eq!(
        (error(&info), &info["needed"]),
        ("missing_scope", &json!("groups:read"))
    );
}

#[tokio::test]
async fn arguments_come_in_the_forms_that_slack_takes() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let send = |kind: &'static str, body: String| {
        let request = post(&slack, "chat.postMessage").bearer_auth(TOKEN);
        let request = match kind {
            "" => request,
            kind => request.header("content-type", kind),
        };
        async { answer_to(request.body(body)).await.1 }
    };
    let form = format!("channel={channel}&text=a+%26+b");
    let posted = done(send(FORM, form.clone()).await);
    assert_eq!(posted["message"]["text"], "a &amp; b");
    let odd = done(
        send(
            "application/x-www-form-urlencoded; charset=utf-8",
            form.clone(),
        )
        .await,
    );
    assert_eq!(odd["warning"], "superfluous_charset");
    let json = json!({"channel": channel, "text": "hi"}).to_string();
    let bare = done(send("application/json", json.clone()).await);
    assert_eq!(
        bare["response_metadata"]["warnings"],
        json!(["missing_charset"])
    );
    let blocks = "[{\"type\":\"section\",\"text\":{\"type\":\"mrkdwn\",\"text\":\"x\"}}]";
    let blocks = format!("channel={channel}&text=x&blocks={blocks}").replace('"', "%22");
    done(send(FORM, blocks).await);
    let refused = [
        (JSON, "{".to_owned(), "invalid_json"),
        (JSON, "[]".to_owned(), "json_not_object"),
        (
            "application/json; charset=latin-9",
            json.clone(),
            "invalid_charset",
        ),
        ("application/xml", json.clone(), "invalid_post_type"),
        ("", json, "missing_post_type"),
        (FORM, format!("{form}&a[1]=2"), "invalid_array_arg"),
        (FORM, format!("{form}&a-b=2"), "invalid_arg_name"),
        (FORM, "text=hi".to_owned(), "invalid_arguments"),
        (
            FORM,
            format!("channel={channel}&text=x&blocks=nonsense"),
            "invalid_blocks_format",
        ),
    ];
    for (kind, body, name) in refused {
        assert_eq!(
            error(&send(kind, body.clone()).await),
            name,
            "{kind} {body}"
        );
    }
    // Methods that read see no arguments in JSON, and neither does the first step of an upload.
    let history = call(&slack, "conversations.history", json!({"channel": channel})).await;
    assert_eq!(error(&history), "invalid_arguments");
    let told = json!(["[ERROR] missing required field: channel"]);
    assert_eq!(history["response_metadata"]["messages"], told);
    let body = json!({"filename": "a.txt", "length": 3});
    let upload = call(&slack, "files.getUploadURLExternal", body).await;
    assert_eq!(error(&upload), "invalid_arguments");
    let unknown = call(&slack, "chat.telepathy", json!({})).await;
    assert_eq!(
        (error(&unknown), &unknown["req_method"]),
        ("unknown_method", &json!("chat.telepathy"))
    );
    let get = get(&slack, "conversations.history", &[("channel", &channel)]).await;
    assert_eq!(done(get)["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn limits_hold_where_a_test_sets_them() {
    let slack = Slack::start();
    let (one, two) = (slack.public_channel("one"), slack.public_channel("two"));
    slack.documented_limits();
    posts(&slack, &one, "first").await;
    posts(&slack, &two, "first").await;
    let body = json!({"channel": one, "text": "second"});
    let request = post(&slack, "chat.postMessage")
        .bearer_auth(TOKEN)
        .json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body, json!({"ok": false, "error": "ratelimited"}));
    slack.limit("users.list", 1, Duration::from_secs(60));
    done(get(&slack, "users.list", &[]).await);
    assert_eq!(error(&get(&slack, "users.list", &[]).await), "ratelimited");
    assert_eq!(slack.refused("users.list", 429).len(), 1);
}

#[tokio::test]
async fn scripted_refusals_have_the_shape_of_slack() {
    let slack = Slack::start();
    slack.then("auth.test", ScriptedFault::too_many_requests(7));
    let response = post(&slack, "auth.test")
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["retry-after"]
        ),
        (429, &"7".parse().unwrap())
    );
    slack.then("auth.test", ScriptedFault::Refuse(200, "fatal_error"));
    assert_eq!(
        error(&call(&slack, "auth.test", json!({})).await),
        "fatal_error"
    );
    slack.then(
        "auth.test",
        ScriptedFault::Refuse(503, "service_unavailable"),
    );
    let (status, _) = answer_to(post(&slack, "auth.test").bearer_auth(TOKEN)).await;
    assert_eq!(status, 503);
    slack.then_any(ScriptedFault::ProxyPage(502));
    let (status, page) = answer_to(post(&slack, "auth.test").bearer_auth(TOKEN)).await;
    assert!(status == 502 && page.as_str().unwrap().contains("<html>"));
    let channel = slack.public_channel("general");
    let root = posts(&slack, &channel, "hello").await;
    let body = json!({"channel": channel, "thread_ts": root, "text": "reply"});
    done(call(&slack, "chat.postMessage", body).await);
    let timeline = slack.timeline();
    let last = timeline.0.last().expect("a call");
    assert_eq!(
        (&last.place.chat, &last.place.thread),
        (&Some(channel), &Some(root))
    );
}

#[tokio::test]
async fn workspaces_are_apart() {
    let slack = Slack::start();
    let token = slack.workspace("T07OTHER02", "Other", &[CLEO]);
    slack.belongs_to("T07OTHER02", "E07ORG0001", "Umbrella");
    let me = done(call_with(&slack, &token, "auth.test", json!({})).await);
    assert_eq!(
        (&me["team_id"], &me["enterprise_id"]),
        (&json!("T07OTHER02"), &json!("E07ORG0001"))
    );
    let general = slack.public_channel("general");
    let theirs = slack.channel_in("T07OTHER02", ChannelKind::Public, "general");
    let body = json!({"channel": theirs, "text": "hi"});
    done(call_with(&slack, &token, "chat.postMessage", body).await);
    let body = json!({"channel": general, "text": "hi"});
    let other = call_with(&slack, &token, "chat.postMessage", body).await;
    assert_eq!(error(&other), "channel_not_found");
    let users = get(&slack, "users.info", &[("user", CLEO.id)]).await;
    assert_eq!(error(&users), "user_not_found");
    let direct = slack.direct(&CLEO);
    let mut client = Client::connect(&slack).await;
    assert_eq!(client.event().await["channel"], theirs);
    slack.says(&direct, &CLEO, "hello");
    let envelope = client.envelope("events_api").await;
    let authorization = &envelope["payload"]["authorizations"][0];
    assert_eq!(authorization["team_id"], "T07OTHER02");
    assert_eq!(authorization["enterprise_id"], "E07ORG0001");
    assert_eq!(authorization["user_id"], me["user_id"]);
}
