//! The fake Discord: commands, buttons, and the answers to both.

use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{AGENT, Client, INTENTS, answer_to, call, done, errors_in, refused};
use crate::support::discord::permissions::{EVERYONE, VIEW_CHANNEL};
use crate::support::discord::{ADA, APPLICATION_ID, BOT_ID, Discord, Id, Whom};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

/// A button that waits for somebody.
async fn button(discord: &Discord, channel: Id) -> Id {
    let button = json!({"type": 2, "style": 1, "label": "Yes", "custom_id": "key-1"});
    let body = json!({"content": "Sure?", "components": [{"type": 1, "components": [button]}]});
    done(
        discord,
        "POST",
        &format!("/channels/{channel}/messages"),
        body,
    )
    .await;
    discord.messages_in(channel).pop().expect("a message").id
}

/// A call without the token of the bot.
async fn anonymous(discord: &Discord, method: &str, path: &str, body: Value) -> (u16, Value) {
    let url = format!("{}{path}", discord.api_url());
    let request = reqwest::Client::new().request(method.parse().expect("a method"), url);
    answer_to(request.header("user-agent", AGENT).json(&body)).await
}

/// The paths of an interaction: of its first answer, of the later ones, and of the first as a message.
fn paths(event: &Value) -> (String, String, String) {
    let (id, token) = (&event["d"]["id"], &event["d"]["token"]);
    let (id, token) = (id.as_str().unwrap(), token.as_str().unwrap());
    let hook = format!("/webhooks/{APPLICATION_ID}/{token}");
    let original = format!("{hook}/messages/@original");
    (
        format!("/interactions/{id}/{token}/callback"),
        hook,
        original,
    )
}

#[tokio::test]
async fn commands_have_names_and_descriptions() {
    let (discord, guild, _) = world();
    let global = format!("/applications/{APPLICATION_ID}/commands");
    let local = format!("/applications/{APPLICATION_ID}/guilds/{guild}/commands");
    let new = json!({"name": "new", "description": "Begins again"});
    let (status, first) = call(&discord, "POST", &global, new.clone()).await;
    assert_eq!(status, 201);
    let (status, again) = call(&discord, "POST", &global, new.clone()).await;
    assert_eq!((status, &again["id"]), (200, &first["id"]));
    let stop = json!({"name": "stop", "description": "Stops"});
    let both = json!([stop, new]);
    let put = done(&discord, "PUT", &global, both.clone()).await;
    assert_eq!(put.as_array().unwrap().len(), 2);
    assert_eq!(put[1]["id"], first["id"]);
    done(&discord, "PUT", &local, json!([stop])).await;
    let named = |name: &str, told: &str| (name.to_owned(), told.to_owned());
    let all = [named("stop", "Stops"), named("new", "Begins again")];
    assert_eq!(discord.commands(None), all);
    assert_eq!(discord.commands(Some(guild)), all[..1]);
    done(&discord, "PUT", &global, json!([])).await;
    assert_eq!(done(&discord, "GET", &global, Value::Null).await, json!([]));
    assert_eq!(
        done(&discord, "GET", &local, Value::Null).await[0]["name"],
        "stop"
    );
    let other = format!("/applications/{BOT_ID}/commands");
    assert_eq!(
        refused(&discord, "PUT", &other, json!([])).await,
        (404, 10002)
    );
    discord.kicks_bot(guild);
    assert_eq!(
        refused(&discord, "PUT", &local, json!([])).await,
        (403, 50001)
    );
    let many: Vec<Value> = (0..101)
        .map(|n| json!({"name": format!("c{n}"), "description": "a"}))
        .collect();
    assert_eq!(
        refused(&discord, "PUT", &global, json!(many)).await,
        (400, 30032)
    );
}

#[tokio::test]
async fn commands_are_checked() {
    let (discord, ..) = world();
    let global = format!("/applications/{APPLICATION_ID}/commands");
    let option = |name: &str| json!({"type": 3, "name": name, "description": "a"});
    let with = |options: Value| json!({"name": "a", "description": "a", "options": options});
    let required = json!({"type": 3, "name": "c", "description": "a", "required": true});
    let cases = [
        (json!({"description": "a"}), "0.name"),
        (json!({"name": "New", "description": "a"}), "0.name"),
        (json!({"name": "a b", "description": "a"}), "0.name"),
        (
            json!({"name": "n".repeat(33), "description": "a"}),
            "0.name",
        ),
        (json!({"name": "a"}), "0.description"),
        (
            json!({"name": "a", "description": "d".repeat(101)}),
            "0.description",
        ),
        (
            json!({"name": "a", "description": "a", "type": 9}),
            "0.type",
        ),
        (
            with(json!([{"name": "b", "description": "a"}])),
            "0.options.0.type",
        ),
        (with(json!([option("b"), option("b")])), "0.options.1"),
        (with(json!([option("b"), required])), "0.options.1"),
        (
            with(json!(
                (0..26).map(|n| option(&n.to_string())).collect::<Vec<_>>()
            )),
            "0.options",
        ),
    ];
    for (command, wrong) in cases {
        let errors = errors_in(&discord, "PUT", &global, json!([command])).await;
        assert_eq!(errors[0], wrong, "{command}");
    }
    let twice = json!([{"name": "a", "description": "a"}, {"name": "a", "description": "b"}]);
    assert_eq!(errors_in(&discord, "PUT", &global, twice).await, ["1"]);
    assert_eq!(discord.commands(None), []);
}

#[tokio::test]
async fn a_button_is_answered_once_and_in_time() {
    let (discord, _, general) = world();
    let message = button(&discord, general).await;
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let pressed = discord.presses(general, message, &ADA, "Yes");
    let event = client.until_event("INTERACTION_CREATE").await;
    let data = &event["d"];
    assert_eq!(
        (&data["type"], &data["data"]["custom_id"]),
        (&json!(3), &json!("key-1"))
    );
    assert_eq!(data["message"]["id"], message.to_string());
    assert_eq!(data["member"]["user"]["id"], ADA.id.to_string());
    assert_eq!(data["member"]["permissions"], EVERYONE.to_string());
    assert_eq!(data["app_permissions"], EVERYONE.to_string());
    assert_eq!(data["channel"]["id"], general.to_string());
    let (callback, hook, original) = paths(&event);
    let (status, body) = anonymous(&discord, "POST", &hook, json!({"content": "early"})).await;
    assert_eq!((status, &body["code"]), (404, &json!(10015)));
    assert_eq!(
        errors_in(&discord, "POST", &callback, json!({"type": 3})).await,
        ["type"]
    );
    let change = json!({"type": 7, "data": {"content": "Sure.", "components": []}});
    let (status, _) = anonymous(&discord, "POST", &callback, change.clone()).await;
    assert_eq!(status, 204);
    let shown = discord.messages_in(general).pop().unwrap();
    assert_eq!((shown.content.as_str(), shown.buttons.len()), ("Sure.", 0));
    let (status, body) = anonymous(&discord, "POST", &callback, change.clone()).await;
    assert_eq!((status, &body["code"]), (400, &json!(40060)));
    assert_eq!(discord.interaction(pressed).answered, Some(7));
    let whisper = json!({"content": "only you", "flags": 64});
    anonymous(&discord, "POST", &hook, whisper).await;
    assert_eq!(discord.interaction(pressed).whispers, ["only you"]);
    assert_eq!(discord.messages_in(general).len(), 1);
    let (_, shown) = anonymous(&discord, "GET", &original, json!({})).await;
    assert_eq!(shown["id"], message.to_string());
    let message = button(&discord, general).await;
    discord.change(|world| world.time_to_answer = Duration::ZERO);
    discord.presses(general, message, &ADA, "key-1");
    for _ in 0..2 {
        // The edit above, and the new message.
        client.next().await.unwrap();
    }
    let late = paths(&client.until_event("INTERACTION_CREATE").await).0;
    let (status, body) = anonymous(&discord, "POST", &late, change).await;
    assert_eq!((status, &body["code"]), (404, &json!(10062)));
}

#[tokio::test]
async fn a_command_is_answered_now_or_later() {
    let (discord, _, general) = world();
    let commands = format!("/applications/{APPLICATION_ID}/commands");
    done(
        &discord,
        "POST",
        &commands,
        json!({"name": "say", "description": "a", "options": [
            {"type": 3, "name": "text", "description": "a"},
        ]}),
    )
    .await;
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let ran = discord.runs(general, &ADA, "say", &[("text", "hello")]);
    let event = client.until_event("INTERACTION_CREATE").await;
    let option = json!({"name": "text", "type": 3, "value": "hello"});
    assert_eq!(event["d"]["data"]["options"], json!([option]));
    assert_eq!(event["d"]["type"], 2);
    let (callback, hook, original) = paths(&event);
    // There is no message to change.
    assert_eq!(
        errors_in(&discord, "POST", &callback, json!({"type": 6})).await,
        ["type"]
    );
    let (status, _) = anonymous(&discord, "POST", &callback, json!({"type": 5})).await;
    assert_eq!(status, 204);
    let (_, later) = anonymous(&discord, "PATCH", &original, json!({"content": "hello"})).await;
    assert_eq!(later["content"], "hello");
    let (_, shown) = anonymous(&discord, "GET", &original, json!({})).await;
    assert_eq!(
        (&shown["content"], &shown["flags"]),
        (&json!("hello"), &json!(0))
    );
    anonymous(&discord, "POST", &hook, json!({"content": "and more"})).await;
    let said = discord.messages_in(general);
    assert_eq!(
        said.iter().map(|m| m.content.as_str()).collect::<Vec<_>>(),
        ["hello", "and more"]
    );
    let (status, _) = anonymous(&discord, "DELETE", &original, json!({})).await;
    assert_eq!(status, 204);
    let (status, body) = anonymous(&discord, "GET", &original, json!({})).await;
    assert_eq!((status, &body["code"]), (404, &json!(10008)));
    assert_eq!(discord.interaction(ran).answered, Some(5));
    discord.change(|world| world.token_life = Duration::ZERO);
    let (status, body) = anonymous(&discord, "POST", &hook, json!({"content": "a"})).await;
    assert_eq!((status, &body["code"]), (401, &json!(50027)));
    discord.change(|world| world.token_life = Duration::from_secs(900));
    // A command reaches the bot even where the bot sees nothing.
    discord.overwrites(general, Whom::Member(BOT_ID), 0, VIEW_CHANNEL);
    let ran = discord.runs(general, &ADA, "say", &[]);
    let event = loop {
        let payload = client.next().await.unwrap();
        if payload["t"] == "INTERACTION_CREATE" {
            break payload;
        }
    };
    assert_eq!(event["d"]["app_permissions"], "0");
    assert!(event["d"]["data"].get("options").is_none());
    let whisper = json!({"type": 4, "data": {"content": "psst", "flags": 64}});
    anonymous(&discord, "POST", &paths(&event).0, whisper).await;
    let edit = json!({"content": "psst again"});
    anonymous(&discord, "PATCH", &paths(&event).2, edit).await;
    assert_eq!(discord.interaction(ran).whispers, ["psst", "psst again"]);
    // The event can arrive again, with the same id.
    discord.repeat_last();
    let again = client.until_event("INTERACTION_CREATE").await;
    assert_eq!(again["d"]["id"], event["d"]["id"]);
}
