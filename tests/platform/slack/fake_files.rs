//! The fake Slack: files.

use serde_json::json;

use super::fake::{Client, FORM, answer_to, call, done, error, get, post, text_of};
use crate::support::slack::{ADA, Slack, TOKEN};

/// The address and the id of a new upload.
async fn begins(slack: &Slack, name: &str, length: usize) -> (String, String) {
    let form = format!("filename={name}&length={length}");
    let request = post(slack, "files.getUploadURLExternal").bearer_auth(TOKEN);
    let answer = done(
        answer_to(request.header("content-type", FORM).body(form))
            .await
            .1,
    );
    (text_of(&answer["upload_url"]), text_of(&answer["file_id"]))
}

#[tokio::test]
async fn the_bot_uploads_in_three_steps() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let root = slack.says(&channel, &ADA, "send it");
    let (url, id) = begins(&slack, "a.txt", 3).await;
    let complete = json!({
        "files": [{"id": id, "title": "Letters"}],
        "channel_id": channel,
        "thread_ts": root,
        "initial_comment": "here",
    });
    let early = call(&slack, "files.completeUploadExternal", complete.clone()).await;
    assert_eq!(error(&early), "file_not_found");
    let upload = |bytes: &'static str| answer_to(reqwest::Client::new().post(&url).body(bytes));
    assert_eq!(upload("too long").await.0, 400);
    assert_eq!(upload("abc").await, (200, json!("OK - 3")));
    assert_eq!(upload("abc").await.0, 404);
    let shared = done(call(&slack, "files.completeUploadExternal", complete.clone()).await);
    assert_eq!(
        (&shared["files"][0]["id"], &shared["files"][0]["title"]),
        (&json!(id), &json!("Letters"))
    );
    let again = call(&slack, "files.completeUploadExternal", complete).await;
    assert_eq!(error(&again), "file_not_found");
    let message = slack.until_bot_replies(&channel, &root, 1).remove(0);
    assert_eq!(
        (&*message.text, &message.files),
        ("here", &vec![("a.txt".to_owned(), id.clone())])
    );
    assert_eq!(slack.file_bytes(&id), b"abc");
    let info = done(get(&slack, "files.info", &[("file", &id)]).await);
    assert_eq!(
        info["file"]["shares"]["public"][&channel][0]["ts"],
        message.ts
    );
    // A form does for the upload too.
    let (url, id) = begins(&slack, "b.txt", 2).await;
    let part = reqwest::multipart::Part::bytes(&b"hi"[..]).file_name("b.txt");
    let form = reqwest::multipart::Form::new().part("file", part);
    assert_eq!(
        answer_to(reqwest::Client::new().post(url).multipart(form))
            .await
            .0,
        200
    );
    let files = json!({"files": [{"id": id}]});
    done(call(&slack, "files.completeUploadExternal", files).await);
    let empty = post(&slack, "files.getUploadURLExternal").bearer_auth(TOKEN);
    let empty = empty
        .header("content-type", FORM)
        .body("filename=a&length=0");
    assert_eq!(error(&answer_to(empty).await.1), "missing_argument");
}

#[tokio::test]
async fn a_file_is_fetched_with_the_token_and_the_scope() {
    let slack = Slack::start();
    let channel = slack.direct(&ADA);
    slack.subscribes_to("file_shared");
    let mut client = Client::connect(&slack).await;
    slack
        .writes(&channel, &ADA)
        .text("look")
        .file("a.png", b"\x89PNG")
        .send();
    let event = client.event().await;
    assert_eq!(event["subtype"], "file_share");
    let file = &event["files"][0];
    assert_eq!(
        (&file["mimetype"], &file["size"]),
        (&json!("image/png"), &json!(4))
    );
    let shared = client.event().await;
    assert_eq!(
        (&shared["type"], &shared["file_id"]),
        (&json!("file_shared"), &file["id"])
    );
    let url = text_of(&file["url_private_download"]);
    let fetch = async |token: Option<&str>| {
        let request = reqwest::Client::new().get(&url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.expect("an answer");
        let kind = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(response.status(), 200);
        (kind, response.bytes().await.unwrap())
    };
    assert_eq!(
        fetch(Some(TOKEN)).await,
        ("image/png".to_owned(), (&b"\x89PNG"[..]).into())
    );
    // Whom Slack does not know gets a page for people, and no error.
    for token in [None, Some("xoxb-wrong")] {
        let (kind, page) = fetch(token).await;
        assert!(kind.starts_with("text/html") && page.starts_with(b"<!DOCTYPE html>"));
    }
    let id = text_of(&file["id"]);
    slack.deletes_file(&id);
    let info = get(&slack, "files.info", &[("file", &id)]).await;
    assert_eq!(error(&info), "file_deleted");
    slack.removes_scope("files:read");
    assert!(fetch(Some(TOKEN)).await.0.starts_with("text/html"));
    assert_eq!(slack.calls_of("file").len(), 4);
}
