//! The fake Discord: what every call needs, and the clients that the other tests of the fake use.

use futures_util::SinkExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::discord::sessions::{DIRECT_MESSAGES, GUILD_MESSAGES, GUILDS, MESSAGE_CONTENT};
use crate::support::discord::{ADA, BEN, BOT_ID, Discord, TOKEN};
use crate::support::fake::ScriptedFault;

pub const AGENT: &str = "DiscordBot (https://hermesd.invalid, 0.1)";

/// What a bot listens to.
pub const INTENTS: u64 = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | MESSAGE_CONTENT;

/// A request with all that Discord wants of one.
pub fn request(discord: &Discord, method: &str, path: &str) -> reqwest::RequestBuilder {
    let method: Method = method.parse().expect("a method");
    let url = format!("{}{path}", discord.api_url());
    let request = reqwest::Client::new().request(method, url);
    request
        .header("user-agent", AGENT)
        .header("authorization", format!("Bot {TOKEN}"))
}

pub async fn answer_to(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.text().await.expect("a body");
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    (status, body)
}

pub async fn call(discord: &Discord, method: &str, path: &str, body: Value) -> (u16, Value) {
    let request = request(discord, method, path);
    answer_to(match body {
        Value::Null => request,
        body => request.json(&body),
    })
    .await
}

pub async fn done(discord: &Discord, method: &str, path: &str, body: Value) -> Value {
    let (status, body) = call(discord, method, path, body).await;
    assert!((200..300).contains(&status), "{status} {body}");
    body
}

/// The status and the code that a call is refused with.
pub async fn refused(discord: &Discord, method: &str, path: &str, body: Value) -> (u16, u64) {
    let (status, body) = call(discord, method, path, body).await;
    assert!(status >= 400, "{status} {body}");
    (status, body["code"].as_u64().expect("a code"))
}

/// The fields with errors that a body is refused with, as paths.
pub async fn errors_in(discord: &Discord, method: &str, path: &str, body: Value) -> Vec<String> {
    let (status, body) = call(discord, method, path, body).await;
    assert_eq!((status, &body["code"]), (400, &json!(50035)), "{body}");
    let mut found = Vec::new();
    collect(&body["errors"], "", &mut found);
    found
}

fn collect(tree: &Value, at: &str, found: &mut Vec<String>) {
    for (key, value) in tree.as_object().expect("an object") {
        match key.as_str() {
            "_errors" => found.push(at.to_owned()),
            key if at.is_empty() => collect(value, key, found),
            key => collect(value, &format!("{at}.{key}"), found),
        }
    }
}

/// A client of the gateway.
pub struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    pub async fn connect(discord: &Discord) -> Client {
        let bot = done(discord, "GET", "/gateway/bot", Value::Null).await;
        Client::connect_to(
            bot["url"].as_str().expect("an address"),
            "/?v=10&encoding=json",
        )
        .await
    }

    pub async fn connect_to(url: &str, query: &str) -> Client {
        let connected = tokio_tungstenite::connect_async(format!("{url}{query}")).await;
        Client(connected.expect("a connection").0)
    }

    /// Connects and identifies. Gives what was dispatched with it.
    pub async fn identified(discord: &Discord, intents: u64) -> (Client, Vec<Value>) {
        let mut client = Client::connect(discord).await;
        client.until_op(10).await;
        client.identify(intents).await;
        let mut first = vec![client.until_event("READY").await];
        let guilds = first[0]["d"]["guilds"].as_array().expect("a list").len();
        let guilds = if intents & GUILDS == 0 { 0 } else { guilds };
        for _ in 0..guilds {
            first.push(client.until_event("GUILD_CREATE").await);
        }
        (client, first)
    }

    pub async fn send(&mut self, payload: Value) {
        let sent = self.0.send(Message::Text(payload.to_string())).await;
        sent.expect("an open connection");
    }

    pub async fn identify(&mut self, intents: u64) {
        self.send(identify(TOKEN, intents)).await;
    }

    pub async fn resume(&mut self, session: &Value, seq: u64) {
        let data = json!({"token": TOKEN, "session_id": session, "seq": seq});
        self.send(json!({"op": 6, "d": data})).await;
    }

    /// The next payload, or the code of the end. A connection that ends without a code has none.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let frame = tokio::time::timeout(crate::support::PATIENCE, self.0.next());
            match frame.await.expect("something in time") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => return Err(Some(close.code.into())),
                Some(Ok(_)) => {}
                None | Some(Err(_)) => return Err(None),
            }
        }
    }

    pub async fn until_op(&mut self, op: u64) -> Value {
        let payload = self.next().await.expect("a payload");
        assert_eq!(payload["op"], op, "{payload}");
        payload
    }

    /// The next payload, which is this dispatch.
    pub async fn until_event(&mut self, name: &str) -> Value {
        let payload = self.next().await.expect("a payload");
        assert_eq!((&payload["op"], &payload["t"]), (&json!(0), &json!(name)));
        payload
    }

    /// The code that the connection ends with.
    pub async fn until_closed(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }

    /// Says goodbye.
    pub async fn close(&mut self) {
        let close = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        self.0.close(Some(close)).await.expect("an open connection");
    }
}

pub fn identify(token: &str, intents: u64) -> Value {
    let properties = json!({"os": "linux", "browser": "test", "device": "test"});
    json!({"op": 2, "d": {"token": token, "intents": intents, "properties": properties}})
}

#[tokio::test]
async fn every_call_needs_the_token_and_the_name_of_a_bot() {
    let discord = Discord::start();
    let client = reqwest::Client::new();
    let url = format!("{}/users/@me", discord.api_url());
    let anonymous = client.get(&url).header("user-agent", AGENT);
    let unauthorized = json!({"message": "401: Unauthorized", "code": 0});
    let wrong = anonymous.try_clone().expect("no body");
    assert_eq!(answer_to(anonymous).await, (401, unauthorized.clone()));
    // The word before the token is part of the scheme.
    let bare = wrong.try_clone().expect("no body");
    let wrong = wrong.header("authorization", "Bot wrong");
    assert_eq!(answer_to(wrong).await, (401, unauthorized.clone()));
    let bare = bare.header("authorization", TOKEN);
    assert_eq!(answer_to(bare).await, (401, unauthorized));
    let unnamed = client
        .get(&url)
        .header("authorization", format!("Bot {TOKEN}"));
    assert_eq!(answer_to(unnamed).await.0, 403);
    let me = done(&discord, "GET", "/users/@me", Value::Null).await;
    assert_eq!(me["id"], BOT_ID.to_string());
    assert_eq!(me["bot"], true);
}

#[tokio::test]
async fn there_are_no_other_routes_and_bodies() {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let send = format!("/channels/{general}/messages");
    assert_eq!(
        refused(&discord, "GET", "/telepathy", Value::Null).await,
        (404, 0)
    );
    assert_eq!(
        refused(&discord, "PUT", "/users/@me", json!({})).await,
        (405, 0)
    );
    let plain = request(&discord, "POST", &send).body("{\"content\": \"hi\"}");
    let (status, body) = answer_to(plain).await;
    assert_eq!((status, &body["code"]), (400, &json!(50035)), "{body}");
    let broken = request(&discord, "POST", &send);
    let broken = broken.header("content-type", "application/json").body("{");
    let (status, body) = answer_to(broken).await;
    assert_eq!((status, &body["code"]), (400, &json!(50109)), "{body}");
    assert_eq!(errors_in(&discord, "POST", &send, json!([])).await, [""]);
    let unknown = json!({"content": "hi", "telepathy": 42});
    done(&discord, "POST", &send, unknown).await;
    assert_eq!(
        errors_in(&discord, "GET", "/channels/general", Value::Null).await,
        ["id"]
    );
}

#[tokio::test]
async fn ids_grow_and_have_the_time_in_them() {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let before = jiff::Timestamp::now().as_millisecond();
    let first = discord.says(general, &ADA, "one");
    let second = discord.says(general, &BEN, "two");
    assert!(guild < general && general < first && first < second);
    let time = i64::try_from(first >> 22).expect("small") + 1_420_070_400_000;
    assert!((time - before).abs() < 10_000, "{time} {before}");
}

#[tokio::test]
async fn scripted_refusals_have_the_shape_of_discord() {
    let discord = Discord::start();
    let me = "GET /users/@me";
    discord.then(me, ScriptedFault::too_many_requests(2));
    let response = request(&discord, "GET", "/users/@me").send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(response.headers()["x-ratelimit-scope"], "user");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["retry_after"], 2.0);
    assert_eq!(body["global"], false);
    discord.then(me, ScriptedFault::Refuse(404, "10003 Unknown Channel"));
    let (status, body) = call(&discord, "GET", "/users/@me", Value::Null).await;
    assert_eq!(
        (status, body),
        (404, json!({"message": "Unknown Channel", "code": 10003}))
    );
    discord.then(me, ScriptedFault::Refuse(500, "Internal Server Error"));
    assert_eq!(
        refused(&discord, "GET", "/users/@me", Value::Null).await,
        (500, 0)
    );
}
