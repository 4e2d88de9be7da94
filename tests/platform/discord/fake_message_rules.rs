//! The fake Discord: the finer rules of messages.

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::fake::{answer_to, call, done, errors_in, refused, request};
use crate::support::discord::{ADA, Discord};

fn world() -> (Discord, u64, String) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let send = format!("/channels/{general}/messages");
    (discord, general, send)
}

#[tokio::test]
async fn embeds_have_lengths() {
    let (discord, _, send) = world();
    let long = |count: usize| "e".repeat(count);
    let cases = [
        (json!([{"title": long(257)}]), "embeds.0.title"),
        (json!([{"description": long(4097)}]), "embeds.0.description"),
        (
            json!([{"footer": {"text": long(2049)}}]),
            "embeds.0.footer.text",
        ),
        (
            json!([{"author": {"name": long(257)}}]),
            "embeds.0.author.name",
        ),
        (
            json!([{"fields": [{"name": "a", "value": long(1025)}]}]),
            "embeds.0.fields.0.value",
        ),
        (
            json!([{"description": long(4000)}, {"description": long(2001)}]),
            "embeds",
        ),
    ];
    for (embeds, wrong) in cases {
        let errors = errors_in(&discord, "POST", &send, json!({"embeds": embeds})).await;
        assert_eq!(errors, [wrong]);
    }
    let full = json!({"embeds": [{"description": long(4000)}, {"description": long(2000)}]});
    done(&discord, "POST", &send, full).await;
}

#[tokio::test]
async fn a_message_that_was_deleted_is_not_made_again() {
    let (discord, general, send) = world();
    let body = json!({"content": "a", "nonce": "n1", "enforce_nonce": true});
    let sent = done(&discord, "POST", &send, body.clone()).await;
    let path = format!("{send}/{}", sent["id"].as_str().unwrap());
    assert_eq!(call(&discord, "DELETE", &path, Value::Null).await.0, 204);
    assert_eq!(refused(&discord, "POST", &send, body).await, (404, 10008));
    assert_eq!(discord.messages_in(general).len(), 0);
}

#[tokio::test]
async fn an_edit_says_anew_whom_it_mentions() {
    let (discord, general, send) = world();
    let quiet = json!({"content": "a", "allowed_mentions": {"parse": []}});
    let sent = done(&discord, "POST", &send, quiet).await;
    let path = format!("{send}/{}", sent["id"].as_str().unwrap());
    let words = format!("<@{}> @everyone", ADA.id);
    let quiet = json!({"content": words, "allowed_mentions": {"parse": []}});
    let edited = done(&discord, "PATCH", &path, quiet).await;
    assert_eq!(edited["mentions"], json!([]));
    assert_eq!(discord.notified(), [""; 0]);
    let edited = done(&discord, "PATCH", &path, json!({"content": words})).await;
    assert_eq!(edited["mentions"][0]["id"], ADA.id.to_string());
    assert_eq!(edited["mention_everyone"], true);
    assert_eq!(discord.messages_in(general)[0].notified.len(), 2);
}

#[tokio::test]
async fn a_plain_message_is_for_everybody() {
    let (discord, general, send) = world();
    let whisper = json!({"content": "a", "flags": 64});
    let sent = done(&discord, "POST", &send, whisper).await;
    assert_eq!(sent["flags"], 0);
    assert_eq!(discord.messages_in(general).len(), 1);
}

#[tokio::test]
async fn a_request_has_a_largest_size() {
    let (discord, general, send) = world();
    let part = |bytes: usize| Part::bytes(vec![0; bytes]).file_name("a.bin");
    let form = |count: usize, bytes: usize| {
        let parts = (0..count).map(|n| (format!("files[{n}]"), part(bytes)));
        parts.fold(Form::new(), |form, (name, part)| form.part(name, part))
    };
    // Each file is small enough, and all together are not.
    let three = request(&discord, "POST", &send).multipart(form(3, 9 << 20));
    let (status, body) = answer_to(three).await;
    assert_eq!((status, &body["code"]), (413, &json!(40005)));
    let one = request(&discord, "POST", &send).multipart(form(1, 11 << 20));
    assert_eq!(answer_to(one).await.0, 413);
    let two = request(&discord, "POST", &send).multipart(form(2, 9 << 20));
    assert_eq!(answer_to(two).await.0, 200);
    assert_eq!(discord.messages_in(general)[0].files.len(), 2);
}
