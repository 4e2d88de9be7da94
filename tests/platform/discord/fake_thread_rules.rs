//! The fake Discord: the finer rules of threads.

use serde_json::{Value, json};

use super::fake::{Client, INTENTS, call, done, refused};
use crate::support::discord::permissions::MANAGE_THREADS;
use crate::support::discord::{ADA, ChannelKind, Discord, Id};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

async fn opens(discord: &Discord, channel: Id, body: Value) -> Id {
    let path = format!("/channels/{channel}/threads");
    let thread = done(discord, "POST", &path, body).await;
    thread["id"].as_str().unwrap().parse().unwrap()
}

/// How many messages a thread says that it has, and had.
async fn counts(discord: &Discord, thread: Id) -> (u64, u64) {
    let shown = done(discord, "GET", &format!("/channels/{thread}"), Value::Null).await;
    let number = |key: &str| shown[key].as_u64().unwrap();
    (number("message_count"), number("total_message_sent"))
}

#[tokio::test]
async fn the_message_that_a_thread_begins_with_does_not_count() {
    let (discord, guild, general) = world();
    let message = discord.says(general, &ADA, "about this");
    let on = format!("/channels/{general}/messages/{message}/threads");
    done(&discord, "POST", &on, json!({"name": "a"})).await;
    let forum = discord.channel(guild, ChannelKind::Forum, "posts");
    let first = json!({"name": "a", "message": {"content": "first"}});
    let post = opens(&discord, forum, first).await;
    for thread in [message, post] {
        assert_eq!(counts(&discord, thread).await, (0, 0));
        let said = discord.says(thread, &ADA, "more");
        discord.says(thread, &ADA, "and more");
        assert_eq!(counts(&discord, thread).await, (2, 2));
        discord.deletes_message(thread, said);
        assert_eq!(counts(&discord, thread).await, (1, 2));
    }
}

#[tokio::test]
async fn a_message_tells_of_its_thread_and_is_not_edited() {
    let (discord, _, general) = world();
    let message = discord.says(general, &ADA, "about this");
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let on = format!("/channels/{general}/messages/{message}/threads");
    done(&discord, "POST", &on, json!({"name": "a"})).await;
    client.until_event("THREAD_CREATE").await;
    let told = client.until_event("MESSAGE_UPDATE").await;
    assert_eq!(told["d"]["thread"]["id"], message.to_string());
    assert_eq!(told["d"]["flags"], 1 << 5);
    assert_eq!(told["d"]["edited_timestamp"], Value::Null);
}

#[tokio::test]
async fn a_thread_tells_who_was_brought_into_it() {
    let (discord, _, general) = world();
    let thread = opens(&discord, general, json!({"name": "a"})).await;
    let path = format!("/channels/{thread}/thread-members/{}", ADA.id);
    for _ in 0..2 {
        assert_eq!(call(&discord, "PUT", &path, Value::Null).await.0, 204);
    }
    let list = format!("/channels/{thread}/messages");
    let told = done(&discord, "GET", &list, Value::Null).await;
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told[0]["type"], 1);
    assert_eq!(told[0]["mentions"][0]["id"], ADA.id.to_string());
    assert_eq!(discord.messages_in(thread).len(), 0);
}

#[tokio::test]
async fn nothing_changes_in_a_locked_thread_without_its_managers() {
    let (discord, guild, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    let send = format!("/channels/{thread}/messages");
    let mut own = Vec::new();
    for _ in 0..4 {
        let sent = done(&discord, "POST", &send, json!({"content": "a"})).await;
        own.push(format!("{send}/{}", sent["id"].as_str().unwrap()));
    }
    let edit = json!({"content": "b"});
    // Messages are deleted where nothing else can be done.
    discord.archives(thread, false);
    assert_eq!(
        refused(&discord, "PATCH", &own[0], edit.clone()).await,
        (400, 50083)
    );
    assert_eq!(call(&discord, "DELETE", &own[0], Value::Null).await.0, 204);
    discord.archives(thread, true);
    assert_eq!(
        refused(&discord, "DELETE", &own[1], Value::Null).await,
        (400, 50083)
    );
    let open = discord.opens_thread(general, &ADA, "other");
    let there = format!("/channels/{open}/messages");
    let sent = done(&discord, "POST", &there, json!({"content": "a"})).await;
    let sent = format!("{there}/{}", sent["id"].as_str().unwrap());
    discord.locks(open);
    assert_eq!(
        refused(&discord, "PATCH", &sent, edit.clone()).await,
        (400, 160005)
    );
    discord.permits_bot(guild, MANAGE_THREADS);
    done(&discord, "PATCH", &sent, edit).await;
    assert_eq!(call(&discord, "DELETE", &own[1], Value::Null).await.0, 204);
}

#[tokio::test]
async fn a_member_wakes_a_thread_and_a_stranger_does_not() {
    let (discord, _, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    let (path, wake) = (format!("/channels/{thread}"), json!({"archived": false}));
    discord.archives(thread, false);
    assert_eq!(
        refused(&discord, "PATCH", &path, wake.clone()).await,
        (403, 50013)
    );
    let send = format!("/channels/{thread}/messages");
    done(&discord, "POST", &send, json!({"content": "a"})).await;
    discord.archives(thread, false);
    done(&discord, "PATCH", &path, wake).await;
    assert_eq!(discord.threads(general).len(), 1);
}

#[tokio::test]
async fn announcements_have_a_limit_of_their_own() {
    let (discord, guild, general) = world();
    let news = discord.channel(guild, ChannelKind::Announcement, "news");
    discord.change(|world| world.most_active_threads = 0);
    for (channel, kind, code) in [(general, 11, 160006), (news, 10, 160007)] {
        let path = format!("/channels/{channel}/threads");
        let body = json!({"name": "a", "type": kind});
        assert_eq!(refused(&discord, "POST", &path, body).await, (400, code));
    }
}
