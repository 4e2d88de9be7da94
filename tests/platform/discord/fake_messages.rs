//! The fake Discord: the rules of messages.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::fake::{answer_to, call, done, errors_in, refused, request};
use crate::support::discord::{ADA, BEN, ChannelKind, Discord, SEND};

fn world() -> (Discord, u64, u64, String) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let send = format!("/channels/{general}/messages");
    (discord, guild, general, send)
}

#[tokio::test]
async fn content_has_a_length_and_a_type() {
    let (discord, _, general, send) = world();
    for empty in [json!({}), json!({"content": " \n"}), json!({"embeds": []})] {
        assert_eq!(refused(&discord, "POST", &send, empty).await, (400, 50006));
    }
    let long = json!({"content": "ä".repeat(2001)});
    assert_eq!(errors_in(&discord, "POST", &send, long).await, ["content"]);
    let wrong = json!({"content": 42, "tts": "yes", "embeds": {}, "nonce": 1.5});
    let errors = errors_in(&discord, "POST", &send, wrong).await;
    assert_eq!(errors, ["content", "embeds", "tts", "nonce"]);
    let full = "ä".repeat(2000);
    let sent = done(&discord, "POST", &send, json!({"content": full})).await;
    assert_eq!(sent["content"], full);
    assert_eq!(sent["type"], 0);
    assert_eq!(sent["channel_id"], general.to_string());
    done(
        &discord,
        "POST",
        &send,
        json!({"content": null, "embeds": [{"title": "a"}]}),
    )
    .await;
    assert_eq!(discord.messages_in(general).len(), 2);
    assert_eq!(discord.calls_of(SEND).len(), 7);
}

#[tokio::test]
async fn a_nonce_is_recognised_for_a_while_if_it_is_enforced() {
    let (discord, guild, general, send) = world();
    let long = json!({"content": "a", "nonce": "x".repeat(26)});
    assert_eq!(errors_in(&discord, "POST", &send, long).await, ["nonce"]);
    let loose = json!({"content": "a", "nonce": "n1"});
    let first = done(&discord, "POST", &send, loose.clone()).await;
    assert_eq!(first["nonce"], "n1");
    let second = done(&discord, "POST", &send, loose).await;
    assert_ne!(first["id"], second["id"]);
    let strict = json!({"content": "b", "nonce": 12345, "enforce_nonce": true});
    let first = done(&discord, "POST", &send, strict.clone()).await;
    let other = json!({"content": "something else", "nonce": "12345", "enforce_nonce": true});
    let again = done(&discord, "POST", &send, other).await;
    assert_eq!(first["id"], again["id"]);
    assert_eq!(again["content"], "b");
    let elsewhere = discord.text_channel(guild, "elsewhere");
    let path = format!("/channels/{elsewhere}/messages");
    let there = done(&discord, "POST", &path, strict.clone()).await;
    assert_eq!(first["id"], there["id"], "it is for all channels");
    discord.change(|world| world.nonce_window = Duration::ZERO);
    let late = done(&discord, "POST", &send, strict).await;
    assert_ne!(first["id"], late["id"]);
    assert_eq!(discord.messages_in(general).len(), 4);
}

#[tokio::test]
async fn a_reply_names_a_message_that_is_there() {
    let (discord, _, general, send) = world();
    let asked = discord.says(general, &ADA, "a question");
    let reply = |reference: Value| json!({"content": "a", "message_reference": reference});
    let sent = done(
        &discord,
        "POST",
        &send,
        reply(json!({"message_id": asked.to_string()})),
    )
    .await;
    assert_eq!(sent["type"], 19);
    assert_eq!(sent["referenced_message"]["content"], "a question");
    assert_eq!(discord.messages_in(general)[0].reply_to, Some(asked));
    let gone = json!({"message_id": "42"});
    let errors = errors_in(&discord, "POST", &send, reply(gone)).await;
    assert_eq!(errors, ["message_reference"]);
    let gone = json!({"message_id": "42", "fail_if_not_exists": false});
    let sent = done(&discord, "POST", &send, reply(gone)).await;
    assert_eq!(sent["type"], 0);
    let joined = discord.writes(general, &BEN).system(7).send();
    let system = json!({"message_id": joined.to_string()});
    let errors = errors_in(&discord, "POST", &send, reply(system)).await;
    assert_eq!(errors, ["message_reference"]);
    assert_eq!(
        errors_in(&discord, "POST", &send, reply(json!({}))).await,
        ["message_reference.message_id"]
    );
}

#[tokio::test]
async fn buttons_stand_in_rows() {
    let (discord, _, general, send) = world();
    let button = |key: &str| json!({"type": 2, "style": 1, "label": key, "custom_id": key});
    let with = |buttons: Value| json!({"content": "a", "components": [{"type": 1, "components": buttons}]});
    let sent = done(
        &discord,
        "POST",
        &send,
        with(json!([button("yes"), button("no")])),
    )
    .await;
    assert_eq!(sent["components"][0]["components"][1]["custom_id"], "no");
    let both = vec![vec![
        ("yes".into(), "yes".into()),
        ("no".into(), "no".into()),
    ]];
    assert_eq!(discord.messages_in(general)[0].buttons, both);
    let link = json!({"type": 2, "style": 5, "label": "a", "url": "https://hermesd.invalid"});
    done(&discord, "POST", &send, with(json!([link]))).await;
    let six: Vec<Value> = (0..6).map(|n| button(&n.to_string())).collect();
    let cases = [
        (json!(six), vec![""]),
        (json!([]), vec![""]),
        (json!([button("a"), button("a")]), vec![".1.custom_id"]),
        (json!([button(&"k".repeat(81))]), vec![".0.label"]),
        (
            json!([{"type": 2, "style": 1, "label": "a", "custom_id": "k".repeat(101)}]),
            vec![".0.custom_id"],
        ),
        (
            json!([{"type": 2, "style": 6, "label": "a", "custom_id": "k"}]),
            vec![".0.style"],
        ),
        (
            json!([{"type": 2, "style": 1, "label": "a"}]),
            vec![".0.custom_id"],
        ),
        (
            json!([{"type": 2, "style": 5, "label": "a"}]),
            vec![".0.url"],
        ),
        (
            json!([{"type": 2, "label": "a", "custom_id": "k"}]),
            vec![".0.style"],
        ),
        (
            json!([{"type": 2, "style": 1, "custom_id": "k"}]),
            vec![".0.label"],
        ),
        (
            json!([{"type": 3, "style": 1, "label": "a", "custom_id": "k"}]),
            vec![".0.type"],
        ),
    ];
    for (buttons, wrong) in cases {
        let errors = errors_in(&discord, "POST", &send, with(buttons.clone())).await;
        let places = wrong
            .iter()
            .map(|place| format!("components.0.components{place}"));
        assert_eq!(errors, places.collect::<Vec<_>>(), "{buttons}");
    }
    let rows: Vec<Value> = (0..6)
        .map(|n| json!({"type": 1, "components": [button(&n.to_string())]}))
        .collect();
    let body = json!({"content": "a", "components": rows});
    assert_eq!(
        errors_in(&discord, "POST", &send, body).await,
        ["components"]
    );
}

#[tokio::test]
async fn files_arrive_in_forms_and_can_be_fetched() {
    let (discord, _, general, send) = world();
    let file = |part: &'static str, bytes: Vec<u8>| {
        let form = Form::new().text("payload_json", r#"{"attachments": [{"id": 0}]}"#);
        let part_body = Part::bytes(bytes).file_name("notes.txt");
        request(&discord, "POST", &send).multipart(form.part(part, part_body))
    };
    let (status, sent) = answer_to(file("files[0]", b"hello".to_vec())).await;
    assert_eq!(status, 200, "{sent}");
    let attachment = &sent["attachments"][0];
    assert_eq!(
        (&attachment["filename"], &attachment["size"]),
        (&json!("notes.txt"), &json!(5))
    );
    let own = format!("{send}/{}", sent["id"].as_str().unwrap());
    done(&discord, "PATCH", &own, json!({"content": ""})).await;
    let broken = json!({"content": "", "components": [{"type": 9}]});
    let errors = errors_in(&discord, "PATCH", &own, broken).await;
    assert_eq!(errors[0], "components.0.type");
    let url = attachment["url"].as_str().unwrap();
    assert_eq!(
        reqwest::get(url).await.unwrap().text().await.unwrap(),
        "hello"
    );
    assert_eq!(discord.messages_in(general)[0].files[0].0, "notes.txt");
    assert_eq!(answer_to(file("document", b"hello".to_vec())).await.0, 400);
    assert_eq!(answer_to(file("files[1]", b"hello".to_vec())).await.0, 400);
    discord.change(|world| world.upload_limit = 4);
    let (status, body) = answer_to(file("files[0]", b"hello".to_vec())).await;
    assert_eq!((status, &body["code"]), (413, &json!(40005)));
    let missing = format!("{}/attachments/1/2/a.txt", discord.url());
    assert_eq!(reqwest::get(missing).await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_list_of_messages_begins_with_the_newest() {
    let (discord, _, general, send) = world();
    let ids: Vec<u64> = (0..6)
        .map(|n| discord.says(general, &ADA, &format!("{n}")))
        .collect();
    let cases = [
        (String::new(), vec![5, 4, 3, 2, 1, 0]),
        ("?limit=2".to_owned(), vec![5, 4]),
        (format!("?after={}&limit=2", ids[1]), vec![3, 2]),
        (format!("?before={}&limit=2", ids[4]), vec![3, 2]),
        (format!("?around={}&limit=3", ids[3]), vec![4, 3, 2]),
        ("?after=0&limit=3".to_owned(), vec![2, 1, 0]),
    ];
    for (query, wanted) in cases {
        let listed = done(&discord, "GET", &format!("{send}{query}"), Value::Null).await;
        let listed = listed.as_array().unwrap().iter();
        let listed: Vec<u64> = listed
            .map(|message| message["content"].as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(listed, wanted, "{query}");
    }
    for query in ["?limit=0", "?limit=101", "?limit=many"] {
        let errors = errors_in(&discord, "GET", &format!("{send}{query}"), Value::Null).await;
        assert_eq!(errors[0], "limit", "{query}");
    }
    let both = format!("{send}?after={}&before={}", ids[1], ids[4]);
    let (status, body) = call(&discord, "GET", &both, Value::Null).await;
    assert_eq!((status, &body["code"]), (400, &json!(50035)));
}

#[tokio::test]
async fn a_bot_changes_only_its_own_messages() {
    let (discord, _, general, send) = world();
    let hers = discord.says(general, &ADA, "mine");
    let sent = done(&discord, "POST", &send, json!({"content": "draft"})).await;
    let own = format!("{send}/{}", sent["id"].as_str().unwrap());
    let other = format!("{send}/{hers}");
    let edit = json!({"content": "final"});
    let edited = done(&discord, "PATCH", &own, edit.clone()).await;
    assert_eq!(edited["content"], "final");
    let shown = discord.until_message(general, |m| m.content == "final");
    assert_eq!((shown.edits, shown.silent), (1, false));
    assert_eq!(
        refused(&discord, "PATCH", &other, edit.clone()).await,
        (403, 50005)
    );
    assert_eq!(
        refused(&discord, "DELETE", &other, Value::Null).await,
        (403, 50013)
    );
    assert_eq!(
        refused(&discord, "PATCH", &own, json!({"content": ""})).await,
        (400, 50006)
    );
    assert_eq!(
        refused(&discord, "PATCH", &format!("{send}/42"), edit).await,
        (404, 10008)
    );
    assert_eq!(
        done(&discord, "GET", &other, Value::Null).await["content"],
        "mine"
    );
    let (status, _) = call(&discord, "DELETE", &own, Value::Null).await;
    assert_eq!(status, 204);
    assert_eq!(
        refused(&discord, "GET", &own, Value::Null).await,
        (404, 10008)
    );
    let loud = json!({"content": "hush", "flags": 1 << 12});
    done(&discord, "POST", &send, loud).await;
    assert!(discord.messages_in(general)[0].silent);
}

#[tokio::test]
async fn reactions_and_typing_are_seen() {
    let (discord, guild, general, send) = world();
    let asked = discord.says(general, &ADA, "a question");
    let eyes = format!("{send}/{asked}/reactions/%F0%9F%91%80/@me");
    assert_eq!(call(&discord, "PUT", &eyes, Value::Null).await.0, 204);
    assert_eq!(call(&discord, "PUT", &eyes, Value::Null).await.0, 204);
    assert_eq!(discord.reactions(general, asked), ["👀"]);
    assert_eq!(call(&discord, "DELETE", &eyes, Value::Null).await.0, 204);
    assert_eq!(discord.reactions(general, asked), [""; 0]);
    let name = format!("{send}/{asked}/reactions/eyes/@me");
    assert_eq!(
        refused(&discord, "PUT", &name, Value::Null).await,
        (400, 10014)
    );
    let typing = format!("/channels/{general}/typing");
    assert_eq!(call(&discord, "POST", &typing, Value::Null).await.0, 204);
    assert_eq!(discord.typed(general), 1);
    let forum = discord.channel(guild, ChannelKind::Forum, "posts");
    let path = format!("/channels/{forum}/messages");
    assert_eq!(
        refused(&discord, "POST", &path, json!({"content": "a"})).await,
        (400, 50008)
    );
}

#[tokio::test]
async fn people_can_close_themselves_to_the_bot() {
    let (discord, ..) = world();
    let open = json!({"recipient_id": ADA.id.to_string()});
    let channel = done(&discord, "POST", "/users/@me/channels", open.clone()).await;
    assert_eq!(channel["type"], 1);
    assert_eq!(channel["recipients"][0]["id"], ADA.id.to_string());
    let again = done(&discord, "POST", "/users/@me/channels", open).await;
    assert_eq!(channel["id"], again["id"]);
    assert_eq!(channel["id"], discord.direct(&ADA).to_string());
    let nobody = json!({"recipient_id": "42"});
    let path = "/users/@me/channels";
    assert_eq!(refused(&discord, "POST", path, nobody).await, (400, 50033));
    assert_eq!(
        errors_in(&discord, "POST", path, json!({})).await,
        ["recipient_id"]
    );
    let send = format!("/channels/{}/messages", channel["id"].as_str().unwrap());
    done(&discord, "POST", &send, json!({"content": "hello"})).await;
    discord.closes_direct(&ADA);
    assert_eq!(
        refused(&discord, "POST", &send, json!({"content": "a"})).await,
        (403, 50007)
    );
    // Nor does it reach somebody with whom it shares no guild.
    let far = Discord::start();
    let send = format!("/channels/{}/messages", far.direct(&BEN));
    assert_eq!(
        refused(&far, "POST", &send, json!({"content": "a"})).await,
        (403, 50278)
    );
}
