//! The fake Discord: whom a message notifies.

use serde_json::json;

use super::fake::{done, errors_in};
use crate::support::discord::permissions::{EVERYONE, MENTION_EVERYONE};
use crate::support::discord::{ADA, BEN, Discord};

fn world() -> (Discord, u64, u64, String) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let send = format!("/channels/{general}/messages");
    (discord, guild, general, send)
}

#[tokio::test]
async fn messages_notify_whom_they_may() {
    let (discord, guild, general, send) = world();
    let team = discord.role(guild, "team", 0);
    discord.mentionable(guild, team, true);
    let closed = discord.role(guild, "closed", 0);
    let words = format!(
        "@everyone @here <@{}> <@!{}> <@&{team}> <@&{closed}>",
        ADA.id, BEN.id
    );
    let (ada, ben) = (format!("user {}", ADA.id), format!("user {}", BEN.id));
    let (team, closed) = (format!("role {team}"), format!("role {closed}"));
    let all = vec![
        ada.clone(),
        ben.clone(),
        team.clone(),
        closed,
        "everyone".to_owned(),
    ];
    let cases = [
        (json!(null), all),
        (json!({"parse": []}), vec![]),
        (json!({}), vec![]),
        (json!({"parse": ["everyone"]}), vec!["everyone".to_owned()]),
        (json!({"parse": ["users"]}), vec![ada.clone(), ben.clone()]),
        (json!({"users": [BEN.id.to_string()]}), vec![ben]),
    ];
    for (allowed, notified) in cases {
        let body = json!({"content": words, "allowed_mentions": allowed});
        done(&discord, "POST", &send, body).await;
        let last = discord.messages_in(general).pop().unwrap();
        assert_eq!(last.notified, notified, "{allowed}");
    }
    let code = format!("`<@{}>` ```\n@everyone\n```", ADA.id);
    let sent = done(&discord, "POST", &send, json!({"content": code})).await;
    assert_eq!(
        (&sent["mentions"], &sent["mention_everyone"]),
        (&json!([]), &json!(false))
    );
    let asked = discord.says(general, &ADA, "a question");
    let reply =
        json!({"content": "an answer", "message_reference": {"message_id": asked.to_string()}});
    done(&discord, "POST", &send, reply.clone()).await;
    assert_eq!(
        discord.messages_in(general).pop().unwrap().notified,
        [ada.as_str()]
    );
    let mut quiet = reply;
    quiet["allowed_mentions"] = json!({"parse": []});
    done(&discord, "POST", &send, quiet.clone()).await;
    assert_eq!(
        discord.messages_in(general).pop().unwrap().notified,
        [""; 0]
    );
    quiet["allowed_mentions"]["replied_user"] = json!(true);
    done(&discord, "POST", &send, quiet).await;
    assert_eq!(discord.messages_in(general).pop().unwrap().notified, [ada]);
    // Without the permission, only those can be called who want it.
    discord.permits(guild, guild, EVERYONE & !MENTION_EVERYONE);
    done(&discord, "POST", &send, json!({"content": words})).await;
    let last = discord.messages_in(general).pop().unwrap();
    assert_eq!(last.notified[2..], [team]);
    assert!(discord.notified().len() > 10);
}

#[tokio::test]
async fn allowed_mentions_do_not_contradict_each_other() {
    let (discord, _, _, send) = world();
    for wrong in [
        json!({"parse": ["users"], "users": ["42"]}),
        json!({"parse": ["roles"], "roles": ["42"]}),
        json!([]),
    ] {
        let body = json!({"content": "a", "allowed_mentions": wrong});
        let errors = errors_in(&discord, "POST", &send, body).await;
        assert_eq!(errors, ["allowed_mentions"], "{wrong}");
    }
    let unknown = json!({"parse": ["ghosts"], "users": ["ada"], "replied_user": 1});
    let body = json!({"content": "a", "allowed_mentions": unknown});
    let errors = errors_in(&discord, "POST", &send, body).await;
    let places = ["replied_user", "parse.0", "users.0"];
    assert_eq!(
        errors,
        places.map(|place| format!("allowed_mentions.{place}"))
    );
}
