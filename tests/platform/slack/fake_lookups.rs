//! The fake Slack: people, channels and their messages.

use serde_json::{Value, json};

use super::fake::{call, done, error, get, posts, text_of};
use crate::support::slack::{ADA, BEN, Slack, TEAM};

#[tokio::test]
async fn people_and_bots_can_be_looked_up() {
    let slack = Slack::start();
    let user = done(get(&slack, "users.info", &[("user", ADA.id)]).await);
    assert_eq!(
        (&user["user"]["name"], &user["user"]["is_bot"]),
        (&json!("ada"), &json!(false))
    );
    let query = [("user", "U07NOBODY00")];
    assert_eq!(
        error(&get(&slack, "users.info", &query).await),
        "user_not_found"
    );
    let me = done(call(&slack, "auth.test", json!({})).await);
    let bot = done(get(&slack, "bots.info", &[("bot", &text_of(&me["bot_id"]))]).await);
    assert_eq!(bot["bot"]["user_id"], slack.bot_user());
    assert_eq!(error(&get(&slack, "bots.info", &[]).await), "bot_not_found");
    let team = get(&slack, "team.info", &[]).await;
    assert_eq!(error(&team), "missing_scope");
    slack.gives_scope("team:read");
    assert_eq!(
        done(get(&slack, "team.info", &[]).await)["team"]["id"],
        TEAM
    );
    let first = done(get(&slack, "users.list", &[("limit", "2")]).await);
    let cursor = text_of(&first["response_metadata"]["next_cursor"]);
    let rest = done(get(&slack, "users.list", &[("limit", "2"), ("cursor", &cursor)]).await);
    let count = |page: &Value| page["members"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&rest)), (2, 1));
    assert_eq!(rest["response_metadata"]["next_cursor"], "");
    let wrong = get(&slack, "users.list", &[("cursor", "bm9uc2Vuc2U=")]).await;
    assert_eq!(error(&wrong), "invalid_cursor");
}

#[tokio::test]
async fn direct_channels_are_opened() {
    let slack = Slack::start();
    let open =
        async |users: &str| call(&slack, "conversations.open", json!({"users": users})).await;
    let opened = done(open(ADA.id).await);
    let id = text_of(&opened["channel"]["id"]);
    assert!(id.starts_with('D') && opened.get("already_open").is_none());
    let again = done(open(ADA.id).await);
    assert_eq!(
        (&again["channel"]["id"], &again["already_open"]),
        (&json!(id), &json!(true))
    );
    assert_eq!(slack.direct(&ADA), id);
    let both = format!("{},{}", ADA.id, BEN.id);
    let missing = open(&both).await;
    assert_eq!(
        (error(&missing), &missing["needed"]),
        ("missing_scope", &json!("mpim:write"))
    );
    slack.gives_scope("mpim:write");
    let group = text_of(&done(open(&both).await)["channel"]["id"]);
    assert_eq!(group, slack.group_direct(&[ADA, BEN]));
    assert_eq!(error(&open("U07NOBODY00").await), "user_not_found");
    assert_eq!(error(&open(&slack.bot_user()).await), "not_enough_users");
    assert_eq!(error(&open(&slack.other_bot()).await), "cannot_dm_bot");
    slack.deactivates(&BEN);
    assert_eq!(error(&open(BEN.id).await), "user_disabled");
    let none = call(&slack, "conversations.open", json!({})).await;
    assert_eq!(error(&none), "users_list_not_supplied");
    let body = json!({"channel": id, "return_im": true});
    let whole = done(call(&slack, "conversations.open", body).await);
    assert_eq!(
        (&whole["channel"]["user"], &whole["channel"]["is_im"]),
        (&json!(ADA.id), &json!(true))
    );
}

#[tokio::test]
async fn channels_show_whether_the_bot_is_a_member() {
    let slack = Slack::start();
    let public = slack.public_channel("general");
    let private = slack.private_channel("ops");
    let info = async |id: &str| get(&slack, "conversations.info", &[("channel", id)]).await;
    assert_eq!(done(info(&public).await)["channel"]["is_member"], true);
    slack.removes_bot(&public);
    assert_eq!(done(info(&public).await)["channel"]["is_member"], false);
    slack.removes_bot(&private);
    assert_eq!(error(&info(&private).await), "channel_not_found");
    let body = json!({"channel": public});
    assert_eq!(
        error(&call(&slack, "conversations.join", body.clone()).await),
        "missing_scope"
    );
    slack.gives_scope("channels:join");
    done(call(&slack, "conversations.join", body.clone()).await);
    let again = done(call(&slack, "conversations.join", body).await);
    assert_eq!(again["warning"], "already_in_channel");
    let direct = slack.direct(&ADA);
    let refused = call(&slack, "conversations.join", json!({"channel": direct})).await;
    assert_eq!(error(&refused), "method_not_supported_for_channel_type");
    let types = [("types", "public_channel,im")];
    let list = done(get(&slack, "conversations.list", &types).await);
    let ids: Vec<&Value> = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["id"])
        .collect();
    assert_eq!(ids, [&json!(public), &json!(direct)]);
    let wrong = get(&slack, "conversations.list", &[("types", "cave")]).await;
    assert_eq!(error(&wrong), "invalid_types");
    slack.archives(&public);
    let list = done(
        get(
            &slack,
            "conversations.list",
            &[("exclude_archived", "true")],
        )
        .await,
    );
    assert_eq!(list["channels"], json!([]));
    let members = done(get(&slack, "conversations.members", &[("channel", &direct)]).await);
    assert_eq!(members["members"], json!([ADA.id, slack.bot_user()]));
}

#[tokio::test]
async fn history_is_read_in_pages_from_the_newest() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let mut all = Vec::new();
    for number in 0..5 {
        all.push(slack.says(&channel, &ADA, &number.to_string()));
    }
    slack.replies(&channel, &all[0], &BEN, "in the thread");
    let texts = |page: &Value| -> Vec<String> {
        let messages = page["messages"].as_array().unwrap().iter();
        messages.map(|message| text_of(&message["text"])).collect()
    };
    let name = "conversations.history";
    let query = [("channel", &*channel), ("limit", "3")];
    let first = done(get(&slack, name, &query).await);
    assert_eq!(
        (texts(&first), &first["has_more"]),
        (vec!["4".into(), "3".into(), "2".into()], &json!(true))
    );
    let cursor = text_of(&first["response_metadata"]["next_cursor"]);
    let query = [("channel", &*channel), ("limit", "3"), ("cursor", &cursor)];
    let rest = done(get(&slack, name, &query).await);
    assert_eq!(
        (texts(&rest), &rest["has_more"]),
        (vec!["1".into(), "0".into()], &json!(false))
    );
    assert_eq!(rest["messages"][1]["reply_count"], 1);
    let query = [("channel", &*channel), ("oldest", &*all[3])];
    assert_eq!(texts(&done(get(&slack, name, &query).await)), ["4"]);
    let query = [
        ("channel", &*channel),
        ("latest", &*all[1]),
        ("inclusive", "1"),
    ];
    assert_eq!(texts(&done(get(&slack, name, &query).await)), ["1", "0"]);
    let query = [("channel", &*channel), ("oldest", "yesterday")];
    assert_eq!(error(&get(&slack, name, &query).await), "invalid_ts_oldest");
    slack.removes_bot(&channel);
    let query = [("channel", &*channel)];
    assert_eq!(error(&get(&slack, name, &query).await), "not_in_channel");
}

#[tokio::test]
async fn a_thread_is_read_from_its_root() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let root = posts(&slack, &channel, "root").await;
    let reply = slack.replies(&channel, &root, &ADA, "one");
    slack
        .writes(&channel, &BEN)
        .thread(&root)
        .broadcast()
        .text("two")
        .send();
    let query = [("channel", &*channel), ("ts", &*root)];
    let thread = done(get(&slack, "conversations.replies", &query).await);
    let texts = ["/0/text", "/1/text", "/2/text"].map(|at| thread["messages"].pointer(at).unwrap());
    assert_eq!(texts, ["root", "one", "two"]);
    assert_eq!(thread["messages"][0]["reply_users_count"], 2);
    let query = [("channel", &*channel), ("ts", &*reply)];
    let only = done(get(&slack, "conversations.replies", &query).await);
    assert_eq!(only["messages"].as_array().unwrap().len(), 1);
    let query = [("channel", &*channel), ("ts", "1700000000.000001")];
    let none = get(&slack, "conversations.replies", &query).await;
    assert_eq!(error(&none), "thread_not_found");
    // A reply that is shown in the channel too is in its history.
    let history = done(get(&slack, "conversations.history", &[("channel", &channel)]).await);
    assert_eq!(history["messages"][0]["subtype"], "thread_broadcast");
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
}
