//! The timeline of the fake Telegram.

use serde_json::json;

use crate::platform::telegram::fake::{call, done};
use crate::support::fake::Place;
use crate::support::telegram::{BotApi, Rights, ScriptedFault};

#[tokio::test]
async fn the_timeline_says_when_a_call_went_where_and_how_it_ended() {
    let api = BotApi::start();
    let forum = api.forum("Workshop", Rights::TopicsAdmin);
    let topic = json!({"chat_id": forum, "name": "Handoff"});
    let thread = done(&api, "createForumTopic", topic).await["message_thread_id"].clone();
    api.then("sendMessage", ScriptedFault::too_many_requests(3));
    let hello = json!({"chat_id": forum, "message_thread_id": thread, "text": "hello"});
    for _ in 0..2 {
        call(&api, "sendMessage", hello.clone()).await.unwrap();
    }
    done(&api, "getMe", json!({})).await;

    let timeline = api.timeline();
    let in_topic = Place {
        chat: Some(forum.to_string()),
        thread: Some(thread.to_string()),
    };
    let places: Vec<&Place> = timeline.0.iter().map(|entry| &entry.place).collect();
    assert_eq!(places[..3], [&in_topic; 3]);
    assert_eq!(*places[3], Place::default());
    assert!(timeline.0.is_sorted_by_key(|entry| entry.arrived));
    assert_eq!(timeline.0[0].arrived.as_nanos(), 0);
    assert!(timeline.0.iter().all(|entry| entry.took.is_some()));

    let table = timeline.to_string();
    let endings = [
        format!("createForumTopic         chat {forum}   thread {thread}        done"),
        format!("thread {thread}        refused 429 Too Many Requests: retry after 3"),
        format!("sendMessage              chat {forum}   thread {thread}        done"),
        "getMe                    chat -                thread -        done".to_owned(),
    ];
    assert_eq!(table.lines().count(), endings.len(), "{table}");
    for (line, ending) in table.lines().zip(endings) {
        assert!(line.ends_with(&ending), "{line} does not end with {ending}");
    }
}
