//! The fake Discord: rate limits, what can be looked up, and what people do.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::fake::{Client, INTENTS, answer_to, done, errors_in, refused, request};
use crate::support::discord::permissions::{ATTACH_FILES, EVERYONE};
use crate::support::discord::{ADA, BEN, BOT_ID, ChannelKind, Discord, SEND};

fn world() -> (Discord, u64, u64) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    (discord, guild, general)
}

#[tokio::test]
async fn each_answer_tells_of_its_bucket() {
    let (discord, guild, general) = world();
    let other = discord.text_channel(guild, "other");
    discord.limit(SEND, 2, Duration::from_secs(600));
    let hello = json!({"content": "hello"});
    let send = |channel: u64| {
        let request = request(&discord, "POST", &format!("/channels/{channel}/messages"));
        request.json(&hello).send()
    };
    let number = |response: &reqwest::Response, name: &str| -> f64 {
        let value = response.headers()[name].to_str().unwrap();
        value.parse().unwrap()
    };
    let first = send(general).await.unwrap();
    assert_eq!(number(&first, "x-ratelimit-limit"), 2.0);
    assert_eq!(number(&first, "x-ratelimit-remaining"), 1.0);
    assert!((500.0..600.1).contains(&number(&first, "x-ratelimit-reset-after")));
    assert!(number(&first, "x-ratelimit-reset") > 1_700_000_000.0);
    send(general).await.unwrap();
    let third = send(general).await.unwrap();
    assert_eq!(third.status(), 429);
    assert_eq!(number(&third, "x-ratelimit-remaining"), 0.0);
    assert_eq!(third.headers()["x-ratelimit-scope"], "user");
    let bucket = third.headers()["x-ratelimit-bucket"].clone();
    let whole = number(&third, "retry-after");
    let body: Value = third.json().await.unwrap();
    assert!(body["retry_after"].as_f64().unwrap() <= whole);
    assert_eq!(body["global"], false);
    // Each channel has a count of its own in the same bucket.
    let elsewhere = send(other).await.unwrap();
    assert_eq!(
        (
            elsewhere.status().as_u16(),
            &elsewhere.headers()["x-ratelimit-bucket"]
        ),
        (200, &bucket)
    );
    assert_eq!(discord.messages_in(general).len(), 2);
    let free = request(&discord, "GET", "/users/@me").send().await.unwrap();
    assert!(number(&free, "x-ratelimit-remaining") > 100.0);
}

#[tokio::test]
async fn all_calls_together_have_a_limit() {
    let (discord, ..) = world();
    discord.limit_all(1, Duration::from_secs(600));
    done(&discord, "GET", "/users/@me", Value::Null).await;
    let second = request(&discord, "GET", "/gateway/bot")
        .send()
        .await
        .unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["x-ratelimit-global"], "true");
    assert_eq!(second.headers()["x-ratelimit-scope"], "global");
    // It tells of no bucket, so a client that only looks at those goes on.
    assert!(!second.headers().contains_key("x-ratelimit-remaining"));
    let body: Value = second.json().await.unwrap();
    assert_eq!(body["global"], true);
    // Answers to interactions do not count.
    let path = "/interactions/42/token/callback";
    assert_eq!(
        refused(&discord, "POST", path, json!({})).await,
        (404, 10062)
    );
    discord.limit_all(1, Duration::ZERO);
    done(&discord, "GET", "/users/@me", Value::Null).await;
}

#[tokio::test]
async fn the_headers_of_a_bucket_do_not_tell_of_a_shared_limit() {
    let (discord, _, general) = world();
    discord.limit(SEND, 5, Duration::from_secs(1));
    discord.limit_shared(SEND, 1, Duration::from_secs(600));
    let path = format!("/channels/{general}/messages");
    done(&discord, "POST", &path, json!({"content": "a"})).await;
    let second = request(&discord, "POST", &path).json(&json!({"content": "b"}));
    let second = second.send().await.unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["x-ratelimit-scope"], "shared");
    assert_ne!(second.headers()["x-ratelimit-remaining"], "0");
    let body: Value = second.json().await.unwrap();
    assert!(body["retry_after"].as_f64().unwrap() > 500.0, "{body}");
    assert_eq!(body["global"], false);
    assert_eq!(discord.messages_in(general).len(), 1);
}

#[tokio::test]
async fn the_bot_looks_up_where_it_is() {
    let (discord, guild, general) = world();
    let get = |path: String| {
        let discord = &discord;
        async move { done(discord, "GET", &path, Value::Null).await }
    };
    assert!(
        get("/gateway".into()).await["url"]
            .as_str()
            .unwrap()
            .starts_with("ws://")
    );
    assert_eq!(
        get("/users/@me/guilds".into()).await[0]["id"],
        guild.to_string()
    );
    assert_eq!(
        get(format!("/users/{}", ADA.id)).await["username"],
        "ada_lovelace"
    );
    assert_eq!(get(format!("/guilds/{guild}")).await["name"], "Work");
    assert_eq!(
        get(format!("/guilds/{guild}/channels")).await[0]["id"],
        general.to_string()
    );
    assert_eq!(
        get(format!("/guilds/{guild}/roles")).await[0]["name"],
        "@everyone"
    );
    let ada = get(format!("/guilds/{guild}/members/{}", ADA.id)).await;
    assert_eq!(ada["user"]["id"], ADA.id.to_string());
    let search = format!("/guilds/{guild}/members/search");
    assert_eq!(
        get(format!("{search}?query=Ben")).await[0]["user"]["id"],
        BEN.id.to_string()
    );
    assert_eq!(
        get(format!("{search}?query=ada_"))
            .await
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(get(format!("{search}?query=zoe")).await, json!([]));
    assert_eq!(
        errors_in(&discord, "GET", &search, Value::Null).await,
        ["query"]
    );
    let many = format!("{search}?query=a&limit=1001");
    assert_eq!(
        errors_in(&discord, "GET", &many, Value::Null).await,
        ["limit"]
    );
    for (path, code) in [
        ("/users/42".to_owned(), (404, 10013)),
        ("/guilds/42".to_owned(), (404, 10004)),
        ("/channels/42".to_owned(), (404, 10003)),
        (format!("/guilds/{guild}/members/42"), (404, 10007)),
    ] {
        assert_eq!(
            refused(&discord, "GET", &path, Value::Null).await,
            code,
            "{path}"
        );
    }
    discord.kicks_bot(guild);
    for path in [format!("/guilds/{guild}"), format!("/channels/{general}")] {
        let code = refused(&discord, "GET", &path, Value::Null).await;
        assert_eq!(code, (403, 50001), "{path}");
    }
}

#[tokio::test]
async fn the_guilds_of_the_bot_come_in_pages() {
    let (discord, first, _) = world();
    let second = discord.guild("Home");
    let ids = |page: Value| -> Vec<String> {
        let guilds = page.as_array().unwrap().iter();
        guilds
            .map(|g| g["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let path = "/users/@me/guilds";
    for (query, expected) in [
        (String::new(), vec![first, second]),
        ("?limit=1".to_owned(), vec![first]),
        (format!("?limit=200&after={first}"), vec![second]),
        (format!("?before={second}"), vec![first]),
        (format!("?after={second}"), vec![]),
    ] {
        let page = done(&discord, "GET", &format!("{path}{query}"), Value::Null).await;
        let expected: Vec<String> = expected.iter().map(u64::to_string).collect();
        assert_eq!(ids(page), expected, "{query}");
    }
    let many = format!("{path}?limit=201");
    assert_eq!(
        errors_in(&discord, "GET", &many, Value::Null).await,
        ["limit"]
    );
    discord.kicks_bot(first);
    let left = done(&discord, "GET", path, Value::Null).await;
    assert_eq!(ids(left), [second.to_string()]);
    discord.invites_bot(first, 1 << 34);
    let page = done(&discord, "GET", path, Value::Null).await;
    let bits: u64 = page[0]["permissions"].as_str().unwrap().parse().unwrap();
    assert_eq!(bits, EVERYONE | 1 << 34);
}

#[tokio::test]
async fn channels_have_places_and_the_application_an_owner() {
    let (discord, guild, general) = world();
    let category = discord.channel(guild, ChannelKind::Category, "All");
    discord.arranges(general, Some(category), 3);
    let path = format!("/guilds/{guild}/channels");
    let channels = done(&discord, "GET", &path, Value::Null).await;
    assert_eq!(channels[0]["parent_id"], category.to_string());
    assert_eq!(
        (&channels[0]["position"], &channels[1]["type"]),
        (&json!(3), &json!(4))
    );
    let send = format!("/channels/{category}/messages");
    let code = refused(&discord, "POST", &send, json!({"content": "a"})).await;
    assert_eq!(code, (400, 50008));
    discord.deletes_channel(category);
    done(
        &discord,
        "GET",
        &format!("/channels/{general}"),
        Value::Null,
    )
    .await;
    for path in ["/applications/@me", "/oauth2/applications/@me"] {
        let application = done(&discord, "GET", path, Value::Null).await;
        assert_eq!(application["owner"]["id"], ADA.id.to_string());
        assert_eq!(application["team"], Value::Null);
    }
    discord.change(|world| world.has_team = true);
    let application = done(&discord, "GET", "/applications/@me", Value::Null).await;
    let team = &application["team"];
    assert_eq!(team["owner_user_id"], ADA.id.to_string());
    assert_eq!(application["owner"]["id"], team["id"]);
}

#[tokio::test]
async fn people_and_others_write() {
    let (discord, _, general) = world();
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    let asked = discord.says(general, &ADA, "a question");
    let reply = discord
        .writes(general, &BEN)
        .text("an answer")
        .reply_to(asked)
        .send();
    discord
        .writes(general, &ADA)
        .file("cat.png", b"meow")
        .send();
    discord
        .writes(general, &ADA)
        .text("built")
        .by_webhook()
        .send();
    discord
        .writes(general, &ADA)
        .text("beep")
        .by_other_bot()
        .send();
    discord.writes(general, &BEN).system(7).send();
    let mut heard = Vec::new();
    for _ in 0..6 {
        heard.push(client.until_event("MESSAGE_CREATE").await["d"].clone());
    }
    assert_eq!(heard[1]["id"], reply.to_string());
    assert_eq!(
        heard[1]["message_reference"]["message_id"],
        asked.to_string()
    );
    assert_eq!(
        heard[1]["referenced_message"]["author"]["id"],
        ADA.id.to_string()
    );
    let url = heard[2]["attachments"][0]["url"].as_str().unwrap();
    assert_eq!(
        reqwest::get(url).await.unwrap().text().await.unwrap(),
        "meow"
    );
    assert_eq!(heard[3]["author"]["id"], heard[3]["webhook_id"]);
    assert_eq!(heard[3].get("member"), None);
    assert_eq!(heard[4]["author"]["bot"], true);
    assert_ne!(heard[4]["author"]["id"], BOT_ID.to_string());
    assert_eq!(heard[5]["type"], 7);
    assert_eq!(discord.messages_in(general).len(), 0);
}

#[tokio::test]
async fn files_need_a_permission() {
    let (discord, guild, general) = world();
    discord.permits(guild, guild, EVERYONE & !ATTACH_FILES);
    let form = Form::new().part("files[0]", Part::bytes(b"a".to_vec()).file_name("a.txt"));
    let path = format!("/channels/{general}/messages");
    let (status, body) = answer_to(request(&discord, "POST", &path).multipart(form)).await;
    assert_eq!((status, &body["code"]), (403, &json!(50013)));
}
