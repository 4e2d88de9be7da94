//! The fake Slack: Socket Mode.

use std::time::Duration;

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::fake::{Client, answer_to, error, get, posts, ticket};
use crate::support::slack::{ADA, APP_TOKEN, Reason, Slack};

const SOON: Duration = Duration::from_millis(100);
const AT_ONCE: [Duration; 3] = [Duration::ZERO; 3];
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_ticket_opens_one_connection() {
    let slack = Slack::start();
    let url = ticket(&slack).await;
    assert!(url.starts_with("ws://"), "{url}");
    let mut first = Client::connect_to(&url).await.expect("a connection");
    let hello = first.next().await.expect("a hello");
    assert_eq!(
        (&hello["type"], &hello["num_connections"]),
        (&json!("hello"), &json!(1))
    );
    assert_eq!(hello["debug_info"]["approximate_connection_time"], 18_060);
    assert_eq!(hello["connection_info"]["app_id"], "A07HERMES01");
    assert!(Client::connect_to(&url).await.is_none());
    let other = url.replace("ticket=", "ticket=x");
    assert!(Client::connect_to(&other).await.is_none());
    slack.accepts_connections(false);
    assert!(Client::connect_to(&ticket(&slack).await).await.is_none());
    let read = get(&slack, "apps.connections.open", &[]).await;
    assert_eq!(error(&read), "not_allowed_token_type");
    let url = format!("{}apps.connections.open", slack.api_url());
    let read = answer_to(reqwest::Client::new().get(url).bearer_auth(APP_TOKEN))
        .await
        .1;
    assert_eq!(error(&read), "insecure_request");
}

#[tokio::test]
async fn ten_connections_are_the_most() {
    let slack = Slack::start();
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(Client::connect(&slack).await);
    }
    slack.until("ten", || (slack.connections() == 10).then_some(()));
    let mut more = Client::connect_to(&ticket(&slack).await).await.unwrap();
    let told = more.next().await.expect("a reason");
    assert_eq!(
        (&told["type"], &told["reason"]),
        (&json!("disconnect"), &json!("too_many_websockets"))
    );
    assert_eq!(more.next().await, None);
}

#[tokio::test]
async fn an_event_goes_to_one_connection_and_is_acknowledged() {
    let slack = Slack::start();
    let direct = slack.direct(&ADA);
    let (mut one, mut two) = (Client::connect(&slack).await, Client::connect(&slack).await);
    slack.until("two", || (slack.connections() == 2).then_some(()));
    let ts = slack.says(&direct, &ADA, "hello");
    slack.says(&direct, &ADA, "again");
    let first = one.envelope("events_api").await;
    assert_eq!(
        (&first["accepts_response_payload"], &first["retry_attempt"]),
        (&json!(false), &json!(0))
    );
    let payload = &first["payload"];
    assert_eq!(
        (&payload["type"], &payload["event"]["ts"]),
        (&json!("event_callback"), &json!(ts))
    );
    assert!(payload["event_id"].as_str().unwrap().starts_with("Ev"));
    one.acknowledge(&first).await;
    slack.until("the first", || slack.acknowledged().pop());
    let second = two.envelope("events_api").await;
    two.acknowledge(&second).await;
    slack.until_acknowledged();
    assert_eq!(slack.acknowledged().len(), 2);
    two.acknowledge(&second).await;
    two.send(json!({"type": "telepathy"})).await;
    slack.until("strays", || (slack.strays().len() == 2).then_some(()));
    slack.repeat_last();
    let again = one.envelope("events_api").await;
    assert_eq!(again["payload"]["event_id"], second["payload"]["event_id"]);
    assert_ne!(again["envelope_id"], second["envelope_id"]);
    assert_eq!(again["retry_attempt"], 1);
}

#[tokio::test]
async fn an_event_without_acknowledgement_comes_again_elsewhere() {
    let slack = Slack::start();
    slack.retries(SOON, AT_ONCE);
    let direct = slack.direct(&ADA);
    let (mut one, mut two) = (Client::connect(&slack).await, Client::connect(&slack).await);
    slack.until("two", || (slack.connections() == 2).then_some(()));
    slack.says(&direct, &ADA, "hello");
    let mut attempts = Vec::new();
    for _ in 0..2 {
        for client in [&mut one, &mut two] {
            let envelope = client.envelope("events_api").await;
            attempts.push((
                envelope["retry_attempt"].clone(),
                envelope["retry_reason"].clone(),
            ));
        }
    }
    let timeout = |attempt: u8| (json!(attempt), json!("timeout"));
    assert_eq!(
        attempts,
        [(json!(0), json!("")), timeout(1), timeout(2), timeout(3)]
    );
    // After three retries Slack gives up.
    slack.until("given up", || (slack.unanswered().len() == 1).then_some(()));
    assert!(one.is_quiet().await && two.is_quiet().await);
    // The other connection gets the repeat, even if it is not its turn.
    slack.says(&direct, &ADA, "lost");
    slack.says(&direct, &ADA, "read");
    assert_eq!(one.envelope("events_api").await["retry_attempt"], 0);
    assert_eq!(two.event().await["text"], "read");
    let lost = two.envelope("events_api").await;
    assert_eq!(lost["payload"]["event"]["text"], "lost");
    assert_eq!(lost["retry_attempt"], 1);
}

#[tokio::test]
async fn events_wait_for_a_connection() {
    let slack = Slack::start();
    slack.retries(NEVER, AT_ONCE);
    let direct = slack.direct(&ADA);
    slack.says(&direct, &ADA, "early");
    let mut client = Client::connect(&slack).await;
    let early = client.envelope("events_api").await;
    assert_eq!(
        (&early["payload"]["event"]["text"], &early["retry_attempt"]),
        (&json!("early"), &json!(1))
    );
    // What is lost with its connection comes again on the next.
    slack.drops_connections();
    assert_eq!(client.next().await, None);
    slack.says(&direct, &ADA, "late");
    let mut client = Client::connect(&slack).await;
    assert_eq!(client.event().await["text"], "early");
    assert_eq!(client.event().await["text"], "late");
    slack.until_acknowledged();
    let attempts: Vec<usize> = slack.acknowledged().iter().map(|ack| ack.attempt).collect();
    assert_eq!(attempts, [2, 1]);
    // A person who runs a command is not kept waiting.
    slack.drops_connections();
    slack.runs(&direct, &ADA, "/hermes", "status");
    assert_eq!(slack.unanswered()[0]["text"], "status");
}

#[tokio::test]
async fn a_silent_connection_swallows_events() {
    let slack = Slack::start();
    slack.retries(SOON, AT_ONCE);
    slack.pings_every(Duration::from_millis(20));
    let direct = slack.direct(&ADA);
    let mut dead = Client::connect(&slack).await;
    let ping = dead.frame().await.expect("a ping");
    assert!(matches!(ping, Message::Ping(text) if text.starts_with(b"Ping from applink")));
    slack.silences_connections();
    slack.says(&direct, &ADA, "hello");
    let mut alive = Client::connect(&slack).await;
    let event = alive.envelope("events_api").await;
    assert_eq!(event["payload"]["event"]["text"], "hello");
    assert!(event["retry_attempt"].as_u64().unwrap() >= 1);
    alive.acknowledge(&event).await;
    slack.until_acknowledged();
    assert!(dead.is_quiet().await);
}

#[tokio::test]
async fn the_server_asks_clients_to_leave() {
    let slack = Slack::start();
    let direct = slack.direct(&ADA);
    let mut client = Client::connect(&slack).await;
    slack.asks_to_leave(Reason::Warning);
    let told = client.next().await.expect("a warning");
    assert_eq!(
        (&told["type"], &told["reason"]),
        (&json!("disconnect"), &json!("warning"))
    );
    // After a warning the connection still works, until the client has another.
    slack.says(&direct, &ADA, "hello");
    assert_eq!(client.event().await["text"], "hello");
    for (reason, name) in [
        (Reason::RefreshRequested, "refresh_requested"),
        (Reason::LinkDisabled, "link_disabled"),
    ] {
        slack.asks_to_leave(reason);
        assert_eq!(client.next().await.expect("a reason")["reason"], name);
        assert_eq!(client.next().await, None);
        slack.until("closed", || (slack.connections() == 0).then_some(()));
        client = Client::connect(&slack).await;
    }
}

#[tokio::test]
async fn the_app_gets_its_own_messages_too() {
    let slack = Slack::start();
    let direct = slack.direct(&ADA);
    let mut client = Client::connect(&slack).await;
    posts(&slack, &direct, "mine").await;
    let event = client.event().await;
    assert_eq!(
        (&event["user"], &event["text"]),
        (&json!(slack.bot_user()), &json!("mine"))
    );
    assert!(event["bot_id"].is_string() && event.get("subtype").is_none());
    assert!(event.get("client_msg_id").is_none());
}
