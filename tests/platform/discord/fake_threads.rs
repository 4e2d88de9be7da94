//! The fake Discord: threads.

use serde_json::{Value, json};

use super::fake::{Client, INTENTS, call, done, errors_in, refused};
use crate::support::discord::permissions::{MANAGE_CHANNELS, MANAGE_THREADS};
use crate::support::discord::sessions::{GUILD_MEMBERS, PRIVILEGED};
use crate::support::discord::{ADA, BEN, BOT_ID, ChannelKind, Discord};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

fn id(value: &Value) -> u64 {
    value["id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("a number")
}

#[tokio::test]
async fn a_thread_is_private_unless_it_says_otherwise() {
    let (discord, _, general) = world();
    let open = format!("/channels/{general}/threads");
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let (status, thread) = call(
        &discord,
        "POST",
        &open,
        json!({"name": "plans", "type": 11}),
    )
    .await;
    assert_eq!(status, 201);
    assert_eq!(
        (&thread["type"], &thread["name"]),
        (&json!(11), &json!("plans"))
    );
    assert_eq!(thread["parent_id"], general.to_string());
    assert_eq!(thread["owner_id"], BOT_ID.to_string());
    assert_eq!(thread["thread_metadata"]["archived"], false);
    client.until_event("THREAD_CREATE").await;
    // The channel tells of it, in a message of Discord.
    let told = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(
        (&told["d"]["type"], &told["d"]["content"]),
        (&json!(18), &json!("plans"))
    );
    assert_eq!(discord.messages_in(general).len(), 0);
    let private = done(&discord, "POST", &open, json!({"name": "secrets"})).await;
    assert_eq!(private["type"], 12);
    let threads = discord.threads(general);
    let seen: Vec<_> = threads
        .iter()
        .map(|t| (t.name.as_str(), t.is_private, t.by_bot))
        .collect();
    assert_eq!(seen, [("plans", false, true), ("secrets", true, true)]);
    assert_eq!(threads[0].members, [BOT_ID]);
    assert_eq!(discord.parent(id(&thread)), general);
    let entry = discord
        .timeline()
        .0
        .into_iter()
        .find(|call| call.place.thread.is_some());
    assert_eq!(entry.unwrap().place.chat, Some(general.to_string()));
}

#[tokio::test]
async fn a_thread_needs_a_name_and_a_fitting_channel() {
    let (discord, guild, general) = world();
    let open = format!("/channels/{general}/threads");
    for (body, wrong) in [
        (json!({"type": 11}), "name"),
        (json!({"name": "", "type": 11}), "name"),
        (json!({"name": "n".repeat(101), "type": 11}), "name"),
        (json!({"name": "a", "type": 13}), "type"),
        (
            json!({"name": "a", "auto_archive_duration": 61}),
            "auto_archive_duration",
        ),
    ] {
        assert_eq!(errors_in(&discord, "POST", &open, body).await, [wrong]);
    }
    let news = discord.channel(guild, ChannelKind::Announcement, "news");
    let voice = discord.channel(guild, ChannelKind::Voice, "voice");
    let direct = discord.direct(&ADA);
    for (channel, kind, fits) in [
        (general, 10, false),
        (news, 10, true),
        (news, 11, false),
        (voice, 11, false),
        (direct, 11, false),
    ] {
        let path = format!("/channels/{channel}/threads");
        let (status, body) =
            call(&discord, "POST", &path, json!({"name": "a", "type": kind})).await;
        match fits {
            true => assert_eq!(status, 201, "{body}"),
            false => assert_eq!((status, &body["code"]), (400, &json!(50024)), "{kind}"),
        }
    }
    assert_eq!(discord.threads(news).len(), 1);
    discord.change(|world| world.most_active_threads = 1);
    let body = json!({"name": "a", "type": 11});
    assert_eq!(refused(&discord, "POST", &open, body).await, (400, 160006));
}

#[tokio::test]
async fn a_thread_on_a_message_has_its_id() {
    let (discord, _, general) = world();
    let message = discord.says(general, &ADA, "about this");
    let open = format!("/channels/{general}/messages/{message}/threads");
    let thread = done(&discord, "POST", &open, json!({"name": "this"})).await;
    assert_eq!(id(&thread), message);
    assert_eq!(thread["type"], 11);
    assert_eq!(
        refused(&discord, "POST", &open, json!({"name": "b"})).await,
        (400, 160004)
    );
    let gone = format!("/channels/{general}/messages/42/threads");
    assert_eq!(
        refused(&discord, "POST", &gone, json!({"name": "b"})).await,
        (404, 10008)
    );
    let list = format!("/channels/{message}/messages");
    let first = done(&discord, "GET", &list, Value::Null).await;
    assert_eq!(first[0]["type"], 21);
}

#[tokio::test]
async fn a_post_in_a_forum_begins_with_a_message_and_may_need_a_tag() {
    let (discord, guild, _) = world();
    for kind in [ChannelKind::Forum, ChannelKind::Media] {
        let forum = discord.channel(guild, kind, "posts");
        let open = format!("/channels/{forum}/threads");
        let bare = json!({"name": "a", "type": 11});
        assert_eq!(errors_in(&discord, "POST", &open, bare).await, ["message"]);
        let empty = json!({"name": "a", "message": {}});
        assert_eq!(refused(&discord, "POST", &open, empty).await, (400, 50006));
        let tag = discord.tag(forum, "help");
        discord.requires_tags(forum);
        let shown = done(&discord, "GET", &format!("/channels/{forum}"), Value::Null).await;
        assert_eq!(
            (&shown["flags"], &shown["available_tags"][0]["name"]),
            (&json!(16), &json!("help"))
        );
        let untagged = json!({"name": "a", "message": {"content": "first"}});
        assert_eq!(
            refused(&discord, "POST", &open, untagged).await,
            (400, 40067)
        );
        let wrong = json!({"name": "a", "message": {"content": "first"}, "applied_tags": ["42"]});
        assert_eq!(refused(&discord, "POST", &open, wrong).await, (404, 10087));
        let tagged = json!({"name": "a", "message": {"content": "first"}, "applied_tags": [tag.to_string()]});
        let thread = done(&discord, "POST", &open, tagged).await;
        assert_eq!(thread["message"]["id"], thread["id"]);
        assert_eq!(thread["applied_tags"], json!([tag.to_string()]));
        assert_eq!(discord.messages_in(id(&thread))[0].content, "first");
    }
}

#[tokio::test]
async fn an_archived_thread_wakes_unless_it_is_locked() {
    let (discord, guild, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    let send = format!("/channels/{thread}/messages");
    let path = format!("/channels/{thread}");
    let hello = json!({"content": "hello"});
    discord.archives(thread, false);
    assert_eq!(discord.threads(general).len(), 0);
    assert_eq!(
        refused(&discord, "PATCH", &path, json!({"name": "b"})).await,
        (400, 50083)
    );
    done(&discord, "POST", &send, hello.clone()).await;
    let open = discord.threads(general);
    assert_eq!(
        (open[0].id, open[0].members.as_slice()),
        (thread, [ADA.id, BOT_ID].as_slice())
    );
    discord.archives(thread, true);
    assert_eq!(
        refused(&discord, "POST", &send, hello.clone()).await,
        (400, 50083)
    );
    let wake = json!({"archived": false});
    assert_eq!(refused(&discord, "PATCH", &path, wake).await, (403, 50013));
    let open = discord.opens_thread(general, &ADA, "other");
    discord.locks(open);
    let there = format!("/channels/{open}/messages");
    assert_eq!(
        refused(&discord, "POST", &there, hello.clone()).await,
        (400, 160005)
    );
    discord.permits_bot(guild, MANAGE_THREADS);
    done(&discord, "POST", &send, hello).await;
    assert_eq!(discord.threads(general).len(), 2);
}

#[tokio::test]
async fn a_bot_changes_and_deletes_what_it_may() {
    let (discord, guild, general) = world();
    let open = format!("/channels/{general}/threads");
    let own = id(&done(&discord, "POST", &open, json!({"name": "a", "type": 11})).await);
    let own = format!("/channels/{own}");
    let hers = format!("/channels/{}", discord.opens_thread(general, &ADA, "hers"));
    let renamed = done(
        &discord,
        "PATCH",
        &own,
        json!({"name": "b", "auto_archive_duration": 60}),
    )
    .await;
    assert_eq!(renamed["name"], "b");
    assert_eq!(renamed["thread_metadata"]["auto_archive_duration"], 60);
    assert_eq!(
        refused(&discord, "PATCH", &hers, json!({"name": "b"})).await,
        (403, 50013)
    );
    assert_eq!(
        refused(&discord, "PATCH", &own, json!({"locked": true})).await,
        (403, 50013)
    );
    assert_eq!(
        errors_in(&discord, "PATCH", &own, json!({"archived": 1})).await,
        ["archived"]
    );
    assert_eq!(
        refused(&discord, "DELETE", &own, Value::Null).await,
        (403, 50013)
    );
    discord.permits_bot(guild, MANAGE_THREADS);
    done(
        &discord,
        "PATCH",
        &own,
        json!({"locked": true, "archived": true}),
    )
    .await;
    done(&discord, "DELETE", &own, Value::Null).await;
    assert_eq!(
        refused(&discord, "GET", &own, Value::Null).await,
        (404, 10003)
    );
    let general = format!("/channels/{general}");
    assert_eq!(
        refused(&discord, "PATCH", &general, json!({"name": "b"})).await,
        (403, 50013)
    );
    discord.permits_bot(guild, MANAGE_CHANNELS);
    done(&discord, "PATCH", &general, json!({"name": "b"})).await;
    done(&discord, "DELETE", &general, Value::Null).await;
    // The threads of a channel go with it.
    assert_eq!(
        refused(&discord, "GET", &hers, Value::Null).await,
        (404, 10003)
    );
}

#[tokio::test]
async fn people_are_brought_into_threads() {
    let (discord, guild, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    let members = format!("/channels/{thread}/thread-members");
    let of = |user: u64| format!("{members}/{user}");
    assert_eq!(
        refused(&discord, "GET", &of(BEN.id), Value::Null).await,
        (404, 10007)
    );
    assert_eq!(call(&discord, "PUT", &of(BEN.id), Value::Null).await.0, 204);
    assert_eq!(
        call(&discord, "PUT", &format!("{members}/@me"), Value::Null)
            .await
            .0,
        204
    );
    let ben = done(&discord, "GET", &of(BEN.id), Value::Null).await;
    assert_eq!(ben["user_id"], BEN.id.to_string());
    assert_eq!(
        discord.threads(general)[0].members,
        [ADA.id, BEN.id, BOT_ID]
    );
    let all = done(&discord, "GET", &members, Value::Null).await;
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert_eq!(
        refused(&discord, "DELETE", &of(BEN.id), Value::Null).await,
        (403, 50013)
    );
    discord.permits_bot(guild, MANAGE_THREADS);
    assert_eq!(
        call(&discord, "DELETE", &of(BEN.id), Value::Null).await.0,
        204
    );
    assert_eq!(
        refused(&discord, "PUT", &of(42), Value::Null).await,
        (404, 10007)
    );
    discord.portal(PRIVILEGED & !GUILD_MEMBERS);
    assert_eq!(
        refused(&discord, "GET", &members, Value::Null).await,
        (403, 50001)
    );
    discord.archives(thread, false);
    assert_eq!(
        refused(&discord, "PUT", &of(BEN.id), Value::Null).await,
        (400, 50083)
    );
    let outside = format!("/channels/{general}/thread-members/@me");
    assert_eq!(
        refused(&discord, "PUT", &outside, Value::Null).await,
        (400, 50024)
    );
}
