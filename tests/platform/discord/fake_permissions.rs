//! The fake Discord: who may do what where.

use serde_json::{Value, json};

use super::fake::{Client, INTENTS, call, done, refused};
use crate::support::discord::permissions::*;
use crate::support::discord::{ADA, BOT_ID, ChannelKind, Discord, SEND, Whom};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

#[tokio::test]
async fn permissions_decide_what_a_call_may_do() {
    let (discord, guild, general) = world();
    let thread = discord.opens_thread(general, &ADA, "plans");
    let message = discord.says(general, &ADA, "hello");
    let base = format!("/channels/{general}");
    let hello = json!({"content": "hello"});
    let public = json!({"name": "a", "type": 11});
    let react = format!("{base}/messages/{message}/reactions/%F0%9F%91%80/@me");
    let reply = json!({"content": "a", "message_reference": {"message_id": message.to_string()}});
    let cases = [
        (VIEW_CHANNEL, "GET", base.clone(), Value::Null, (403, 50001)),
        (
            VIEW_CHANNEL,
            "GET",
            format!("/channels/{thread}"),
            Value::Null,
            (403, 50001),
        ),
        (
            SEND_MESSAGES,
            "POST",
            format!("{base}/messages"),
            hello.clone(),
            (403, 50013),
        ),
        (
            SEND_MESSAGES,
            "POST",
            format!("{base}/typing"),
            Value::Null,
            (403, 50013),
        ),
        (
            SEND_MESSAGES_IN_THREADS,
            "POST",
            format!("/channels/{thread}/messages"),
            hello.clone(),
            (403, 50013),
        ),
        (
            CREATE_PUBLIC_THREADS,
            "POST",
            format!("{base}/threads"),
            public.clone(),
            (403, 50013),
        ),
        (
            CREATE_PRIVATE_THREADS,
            "POST",
            format!("{base}/threads"),
            json!({"name": "a"}),
            (403, 50013),
        ),
        (
            ADD_REACTIONS,
            "PUT",
            react.clone(),
            Value::Null,
            (403, 50013),
        ),
        (
            READ_MESSAGE_HISTORY,
            "PUT",
            react,
            Value::Null,
            (403, 50013),
        ),
        (
            READ_MESSAGE_HISTORY,
            "POST",
            format!("{base}/messages"),
            reply,
            (400, 160002),
        ),
    ];
    for (without, method, path, body, wanted) in cases {
        discord.permits(guild, guild, EVERYONE & !without);
        let code = refused(&discord, method, &path, body).await;
        assert_eq!(code, wanted, "{method} {path}");
    }
    discord.permits(guild, guild, EVERYONE & !READ_MESSAGE_HISTORY);
    let list = format!("{base}/messages");
    assert_eq!(done(&discord, "GET", &list, Value::Null).await, json!([]));
    // Sending in the channel and in its threads are two things.
    discord.permits(guild, guild, EVERYONE & !SEND_MESSAGES);
    done(
        &discord,
        "POST",
        &format!("/channels/{thread}/messages"),
        hello,
    )
    .await;
    assert_eq!(discord.refused(SEND, 403).len(), 2);
}

#[tokio::test]
async fn the_overwrites_of_a_channel_come_in_their_order() {
    let (discord, guild, general) = world();
    let send = format!("/channels/{general}/messages");
    let hello = json!({"content": "hello"});
    let team = discord.role(guild, "team", 0);
    discord.gives_role(guild, BOT_ID, team);
    let steps = [
        (Whom::Role(guild), 0, SEND_MESSAGES, false),
        (Whom::Role(team), SEND_MESSAGES, 0, true),
        (Whom::Member(BOT_ID), 0, SEND_MESSAGES, false),
        (Whom::Member(BOT_ID), SEND_MESSAGES, 0, true),
        (Whom::Role(guild), 0, VIEW_CHANNEL, false),
    ];
    for (whom, allow, deny, may) in steps {
        discord.overwrites(general, whom, allow, deny);
        let (status, body) = call(&discord, "POST", &send, hello.clone()).await;
        assert_eq!(status == 200, may, "{whom:?} {body}");
    }
    let other = discord.role(guild, "admin", ADMINISTRATOR);
    discord.gives_role(guild, BOT_ID, other);
    done(&discord, "POST", &send, hello).await;
}

#[tokio::test]
async fn who_may_not_join_a_voice_channel_can_do_nothing_there() {
    let (discord, guild, _) = world();
    let voice = discord.channel(guild, ChannelKind::Voice, "talk");
    let send = format!("/channels/{voice}/messages");
    done(&discord, "POST", &send, json!({"content": "a"})).await;
    discord.overwrites(voice, Whom::Member(BOT_ID), 0, CONNECT);
    assert_eq!(
        refused(&discord, "POST", &send, json!({"content": "a"})).await,
        (403, 50013)
    );
    done(&discord, "GET", &format!("/channels/{voice}"), Value::Null).await;
    assert_eq!(done(&discord, "GET", &send, Value::Null).await, json!([]));
}

#[tokio::test]
async fn a_private_thread_is_for_its_members() {
    let (discord, guild, general) = world();
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let thread = discord.opens_private_thread(general, &ADA, "secrets");
    let path = format!("/channels/{thread}");
    discord.says(thread, &ADA, "nobody hears this");
    discord.says(general, &ADA, "everybody hears this");
    let heard = client.until_event("MESSAGE_CREATE").await;
    assert_eq!(heard["d"]["content"], "everybody hears this");
    assert_eq!(
        refused(&discord, "GET", &path, Value::Null).await,
        (403, 50001)
    );
    // A mention brings the bot in.
    discord.says(thread, &ADA, &format!("<@{BOT_ID}> come in"));
    let brought = client.until_event("THREAD_CREATE").await;
    assert_eq!(brought["d"]["id"], thread.to_string());
    client.until_event("MESSAGE_CREATE").await;
    done(&discord, "GET", &path, Value::Null).await;
    let active = done(
        &discord,
        "GET",
        &format!("/guilds/{guild}/threads/active"),
        Value::Null,
    )
    .await;
    assert_eq!(active["threads"][0]["id"], thread.to_string());
    assert_eq!(active["members"][0]["user_id"], BOT_ID.to_string());
}
