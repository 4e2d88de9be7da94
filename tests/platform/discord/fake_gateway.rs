//! The fake gateway: sessions, what they get, and how they come back.

use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{Client, INTENTS, done, identify};
use crate::support::discord::sessions::{
    DIRECT_MESSAGES, GUILD_MEMBERS, GUILD_MESSAGES, GUILDS, MESSAGE_CONTENT, PRIVILEGED,
};
use crate::support::discord::{ADA, APPLICATION_ID, BOT_ID, Discord, Order, TOKEN};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

#[tokio::test]
async fn a_session_begins_with_all_that_the_bot_sees() {
    let (discord, guild, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    discord.opens_private_thread(general, &ADA, "secrets");
    let mut client = Client::connect(&discord).await;
    let hello = client.until_op(10).await;
    assert_eq!(hello["d"]["heartbeat_interval"], 41_250);
    client.identify(INTENTS).await;
    let ready = client.until_event("READY").await;
    assert_eq!(ready["s"], 1);
    assert_eq!(ready["d"]["user"]["id"], BOT_ID.to_string());
    assert_eq!(ready["d"]["application"]["id"], APPLICATION_ID.to_string());
    let unavailable = json!([{"id": guild.to_string(), "unavailable": true}]);
    assert_eq!(ready["d"]["guilds"], unavailable);
    let resume = ready["d"]["resume_gateway_url"].as_str().unwrap();
    assert!(resume.starts_with("ws://"), "{resume}");
    let bot = done(&discord, "GET", "/gateway/bot", Value::Null).await;
    assert_ne!(bot["url"], resume, "a session is resumed elsewhere");
    let create = client.until_event("GUILD_CREATE").await;
    assert_eq!(create["d"]["channels"][0]["id"], general.to_string());
    // The channels of a guild do not name it again.
    assert!(create["d"]["channels"][0].get("guild_id").is_none());
    assert!(create["d"]["threads"][0].get("guild_id").is_none());
    assert_eq!(create["d"]["roles"].as_array().unwrap().len(), 2);
    let threads = create["d"]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1, "{threads:?}");
    assert_eq!(threads[0]["id"], thread.to_string());
    discord.until_listening();
    client.send(json!({"op": 1, "d": 2})).await;
    client.until_op(11).await;
    let bot = done(&discord, "GET", "/gateway/bot", Value::Null).await;
    assert_eq!(bot["session_start_limit"]["remaining"], 999);
}

#[tokio::test]
async fn a_client_that_breaks_the_rules_is_closed() {
    let (discord, ..) = world();
    let long = json!({"op": 3, "d": {"status": "x".repeat(4096)}});
    let mut shard = identify(TOKEN, GUILDS);
    shard["d"]["shard"] = json!([2, 1]);
    let rules = [
        (identify("wrong", GUILDS), 4004),
        (identify(TOKEN, 1 << 40), 4013),
        (json!({"op": 2, "d": {"token": TOKEN, "intents": 1}}), 4002),
        (shard, 4010),
        (long, 4002),
        (json!({"op": 77, "d": null}), 4001),
        (json!({"op": 3, "d": {}}), 4003),
        (json!("no object"), 4002),
        (
            json!({"op": 6, "d": {"token": "wrong", "session_id": "a", "seq": 1}}),
            4004,
        ),
    ];
    for (payload, code) in rules {
        let mut client = Client::connect(&discord).await;
        client.until_op(10).await;
        client.send(payload.clone()).await;
        assert_eq!(client.until_closed().await, Some(code), "{payload}");
    }
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    client.identify(INTENTS).await;
    assert_eq!(client.until_closed().await, Some(4005));
    let url = discord.world().gateway_url();
    let mut old = Client::connect_to(&url, "/?v=6&encoding=json").await;
    assert_eq!(old.until_closed().await, Some(4012));
    let mut other = Client::connect_to(&url, "/?v=10&encoding=etf").await;
    assert_eq!(other.until_closed().await, Some(4002));
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    for _ in 0..120 {
        client.send(json!({"op": 1, "d": 1})).await;
    }
    assert_eq!(client.until_closed().await, Some(4008));
}

#[tokio::test]
async fn the_portal_permits_privileged_intents() {
    let (discord, _, general) = world();
    discord.portal(PRIVILEGED & !MESSAGE_CONTENT);
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.identify(INTENTS).await;
    assert_eq!(client.until_closed().await, Some(4014));
    let flags = done(&discord, "GET", "/applications/@me", Value::Null).await;
    assert_eq!(flags["flags"], (1 << 13) | (1 << 15));
    // Who may not ask for the content does not get it, but for what is meant for the bot.
    let some = GUILD_MESSAGES | DIRECT_MESSAGES;
    let (mut client, _) = Client::identified(&discord, some).await;
    discord
        .writes(general, &ADA)
        .text("secret")
        .file("a.txt", b"a")
        .send();
    let hidden = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(hidden["d"]["content"], "");
    assert_eq!(hidden["d"]["attachments"], json!([]));
    discord.says(general, &ADA, &format!("<@{BOT_ID}> hello"));
    let mention = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(mention["d"]["content"], format!("<@{BOT_ID}> hello"));
    discord.says(discord.direct(&ADA), &ADA, "psst");
    let direct = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(direct["d"]["content"], "psst");
    assert_eq!(direct["d"].get("guild_id"), None);
    let path = format!("/channels/{general}/messages");
    done(
        &discord,
        "POST",
        &path,
        json!({"content": "mine", "nonce": "n1"}),
    )
    .await;
    let own = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(own["d"]["content"], "mine");
    assert_eq!(own["d"]["nonce"], "n1");
    discord.portal(PRIVILEGED & !GUILD_MEMBERS);
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.identify(GUILD_MEMBERS).await;
    assert_eq!(client.until_closed().await, Some(4014));
}

#[tokio::test]
async fn a_session_gets_the_events_of_its_intents() {
    let (discord, guild, general) = world();
    let direct = discord.direct(&ADA);
    let (mut messages, _) = Client::identified(&discord, GUILD_MESSAGES | MESSAGE_CONTENT).await;
    let (mut guilds, _) = Client::identified(&discord, GUILDS).await;
    discord.says(direct, &ADA, "not for you");
    let id = discord.says(general, &ADA, "hello");
    discord.edits(general, id, "hello!");
    discord.deletes_message(general, id);
    let create = messages.until_event("MESSAGE_CREATE").await;
    assert_eq!(create["d"]["content"], "hello");
    assert_eq!(create["d"]["guild_id"], guild.to_string());
    assert!(create["d"]["member"]["roles"].is_array());
    assert_eq!(create["d"]["author"]["id"], ADA.id.to_string());
    let update = messages.until_event("MESSAGE_UPDATE").await;
    assert_eq!(update["d"]["content"], "hello!");
    assert!(update["d"]["edited_timestamp"].is_string());
    let delete = messages.until_event("MESSAGE_DELETE").await;
    assert_eq!(delete["d"]["id"], id.to_string());
    let thread = discord.opens_thread(general, &ADA, "plans");
    discord.archives(thread, true);
    discord.deletes_channel(thread);
    discord.deletes_channel(general);
    discord.kicks_bot(guild);
    let opened = guilds.until_event("THREAD_CREATE").await;
    assert_eq!(opened["d"]["newly_created"], true);
    let archived = guilds.until_event("THREAD_UPDATE").await;
    let meta = &archived["d"]["thread_metadata"];
    assert_eq!(
        (&meta["archived"], &meta["locked"]),
        (&json!(true), &json!(true))
    );
    let deleted = guilds.until_event("THREAD_DELETE").await;
    assert_eq!(deleted["d"]["parent_id"], general.to_string());
    guilds.until_event("CHANNEL_DELETE").await;
    let left = guilds.until_event("GUILD_DELETE").await;
    assert_eq!(left["d"], json!({"id": guild.to_string()}));
}

#[tokio::test]
async fn a_session_that_comes_back_gets_what_it_missed() {
    let (discord, _, general) = world();
    let (client, first) = Client::identified(&discord, INTENTS).await;
    let session = first[0]["d"]["session_id"].clone();
    discord.until_listening();
    drop(client);
    discord.until_quiet();
    discord.says(general, &ADA, "while you were away");
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&session, 2).await;
    let missed = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(
        (&missed["s"], &missed["d"]["content"]),
        (&json!(3), &json!("while you were away"))
    );
    let resumed = client.until_event("RESUMED").await;
    assert_eq!(resumed["s"], 4);
    discord.says(general, &ADA, "and now");
    assert_eq!(client.until_event("MESSAGE_CREATE").await["s"], 5);
    // The same again, as long as the session is there.
    discord.drops_connections();
    assert_eq!(client.until_closed().await, None);
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&session, 3).await;
    assert_eq!(client.until_event("MESSAGE_CREATE").await["s"], 5);
    client.until_event("RESUMED").await;
    // A number that was never sent ends it.
    discord.drops_connections();
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&session, 99).await;
    assert_eq!(client.until_closed().await, Some(4007));
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&session, 3).await;
    assert_eq!(client.until_op(9).await["d"], false);
    client.identify(INTENTS).await;
    client.until_event("READY").await;
}

#[tokio::test]
async fn a_goodbye_ends_the_session() {
    let (discord, ..) = world();
    let (mut client, first) = Client::identified(&discord, INTENTS).await;
    client.close().await;
    discord.until_quiet();
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&first[0]["d"]["session_id"], 2).await;
    assert_eq!(client.until_op(9).await["d"], false);
}

#[tokio::test]
async fn a_test_can_disturb_the_gateway() {
    let (discord, _, general) = world();
    let (mut client, first) = Client::identified(&discord, INTENTS).await;
    let session = first[0]["d"]["session_id"].clone();
    assert_eq!(discord.connections(), 1);
    discord.acknowledges(false);
    client.send(json!({"op": 1, "d": 2})).await;
    discord.says(general, &ADA, "no answer to the heartbeat");
    client.until_event("MESSAGE_CREATE").await;
    discord.orders(Order::Reconnect);
    client.until_op(7).await;
    discord.orders(Order::Close(4000));
    assert_eq!(client.until_closed().await, Some(4000));
    discord.acknowledges(true);
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&session, 3).await;
    client.until_event("RESUMED").await;
    discord.orders(Order::Invalidate(true));
    assert_eq!(client.until_op(9).await["d"], true);
    client.resume(&session, 4).await;
    client.until_event("RESUMED").await;
    discord.orders(Order::Invalidate(false));
    assert_eq!(client.until_op(9).await["d"], false);
    client.resume(&session, 4).await;
    assert_eq!(client.until_op(9).await["d"], false);
    discord.accepts_connections(false);
    let url = format!("{}/?v=10&encoding=json", discord.world().gateway_url());
    assert!(tokio_tungstenite::connect_async(url).await.is_err());
    discord.accepts_connections(true);
    let (mut client, first) = Client::identified(&discord, INTENTS).await;
    discord.orders(Order::Close(4009));
    assert_eq!(client.until_closed().await, Some(4009));
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&first[0]["d"]["session_id"], 2).await;
    assert_eq!(client.until_op(9).await["d"], false);
}

#[tokio::test]
async fn sessions_can_be_forgotten_while_nobody_is_connected() {
    let (discord, ..) = world();
    let (client, first) = Client::identified(&discord, INTENTS).await;
    drop(client);
    discord.until_quiet();
    discord.forgets_sessions();
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&first[0]["d"]["session_id"], 2).await;
    assert_eq!(client.until_op(9).await["d"], false);
}

#[tokio::test]
async fn a_client_without_a_heartbeat_times_out() {
    let (discord, ..) = world();
    discord.change(|world| world.gateway.heartbeat_interval = Duration::from_millis(50));
    let (mut client, first) = Client::identified(&discord, INTENTS).await;
    assert_eq!(client.until_closed().await, Some(4009));
    let mut client = Client::connect(&discord).await;
    client.until_op(10).await;
    client.resume(&first[0]["d"]["session_id"], 2).await;
    assert_eq!(client.until_op(9).await["d"], false);
}

#[tokio::test]
async fn sessions_can_be_started_slowly_and_not_too_often() {
    let (discord, ..) = world();
    discord.change(|world| world.gateway.between_starts = Duration::from_secs(600));
    let (_client, _) = Client::identified(&discord, INTENTS).await;
    let mut second = Client::connect(&discord).await;
    second.until_op(10).await;
    second.identify(INTENTS).await;
    assert_eq!(second.until_op(9).await["d"], false);
    discord.change(|world| {
        world.gateway.between_starts = Duration::ZERO;
        world.gateway.starts_fail = true;
    });
    second.identify(INTENTS).await;
    assert_eq!(second.until_op(9).await["d"], false);
    discord.change(|world| world.gateway.starts_left = 0);
    second.identify(INTENTS).await;
    assert_eq!(second.until_closed().await, Some(4004));
    let (status, _) = super::fake::call(&discord, "GET", "/users/@me", Value::Null).await;
    assert_eq!(status, 401, "the token was reset");
}

#[tokio::test]
async fn the_last_event_of_a_person_can_arrive_again() {
    let (discord, _, general) = world();
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let id = discord.says(general, &ADA, "once");
    let path = format!("/channels/{general}/messages");
    done(&discord, "POST", &path, json!({"content": "answer"})).await;
    discord.repeat_last();
    let first = client.until_event("MESSAGE_CREATE").await;
    client.until_event("MESSAGE_CREATE").await;
    let again = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(first["d"], again["d"]);
    assert_eq!(again["d"]["id"], id.to_string());
    assert_ne!(first["s"], again["s"]);
    // Without a connection, it waits for the next session.
    drop(client);
    discord.until_quiet();
    discord.repeat_last();
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let again = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(again["d"]["id"], id.to_string());
    discord.says(general, &ADA, "next");
    assert_eq!(
        client.until_event("MESSAGE_CREATE").await["d"]["content"],
        "next"
    );
}
