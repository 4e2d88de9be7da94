//! What the fake Telegram lets a bot close and delete.

use std::time::Duration;

use serde_json::{Value, json};

use crate::platform::telegram::fake::{call, done, refused};
use crate::support::telegram::Rights::{Admin, Member, TopicsAdmin, TopicsAdminWithoutDeletion};
use crate::support::telegram::{ADA, BEN, BOT_ID, BotApi};

async fn open(api: &BotApi, chat: i64, name: &str) -> i64 {
    let topic = json!({"chat_id": chat, "name": name});
    let topic = done(api, "createForumTopic", topic).await;
    topic["message_thread_id"].as_i64().unwrap()
}

fn topic(chat: i64, thread: i64) -> Value {
    json!({"chat_id": chat, "message_thread_id": thread})
}

fn message(chat: i64, id: i64) -> Value {
    json!({"chat_id": chat, "message_id": id})
}

async fn send(api: &BotApi, chat: i64, thread: Option<i64>) -> i64 {
    let mut hello = json!({"chat_id": chat, "text": "hello"});
    if let Some(thread) = thread {
        hello["message_thread_id"] = json!(thread);
    }
    let sent = done(api, "sendMessage", hello).await;
    sent["message_id"].as_i64().unwrap()
}

#[tokio::test]
async fn a_deleted_topic_takes_all_its_messages_with_it() {
    let api = BotApi::start();
    let forum = api.forum("Workshop", TopicsAdmin);
    let (gone, stays) = (
        open(&api, forum, "Gone").await,
        open(&api, forum, "Stays").await,
    );
    let in_gone = send(&api, forum, Some(gone)).await;
    let of_ada = api.says(forum, Some(gone), &ADA, "hi");
    send(&api, forum, Some(stays)).await;
    send(&api, forum, None).await;
    done(&api, "deleteForumTopic", topic(forum, gone)).await;

    let topics = api.topics(forum);
    assert_eq!((topics.len(), topics[0].thread), (1, stays));
    assert_eq!(api.messages_in(forum, Some(gone)).len(), 0);
    for (thread, count) in [(Some(stays), 1), (None, 1)] {
        assert_eq!(api.messages_in(forum, thread).len(), count);
    }
    // The message about the creation of the topic is gone too.
    for id in [gone, in_gone, of_ada] {
        let missing = "Bad Request: message to delete not found";
        assert_eq!(
            refused(&api, "deleteMessage", message(forum, id)).await,
            missing
        );
    }
    let late = json!({"chat_id": forum, "message_thread_id": gone, "text": "hello"});
    let missing = "Bad Request: message thread not found";
    assert_eq!(refused(&api, "sendMessage", late).await, missing);
    for method in ["deleteForumTopic", "closeForumTopic"] {
        let invalid = "Bad Request: TOPIC_ID_INVALID";
        assert_eq!(refused(&api, method, topic(forum, gone)).await, invalid);
    }
}

#[tokio::test]
async fn a_topic_is_deleted_with_the_right_to_delete_messages_only() {
    let api = BotApi::start();
    let delete = "deleteForumTopic";
    let denied = "Bad Request: not enough rights to delete the topic";
    // The right to manage topics is not enough, even for a topic of one's own.
    let forum = api.forum("Workshop", TopicsAdminWithoutDeletion);
    let own = open(&api, forum, "Own").await;
    assert_eq!(refused(&api, delete, topic(forum, own)).await, denied);
    assert_eq!(api.topics(forum).len(), 1);
    let me = json!({"chat_id": forum, "user_id": BOT_ID});
    let me = done(&api, "getChatMember", me).await;
    let rights = (&me["can_manage_topics"], &me["can_delete_messages"]);
    assert_eq!(rights, (&json!(true), &json!(false)));

    // It is not needed either.
    let forum = api.forum("Workshop", Admin);
    let theirs = api.opens_topic(forum, &BEN, "Theirs");
    done(&api, delete, topic(forum, theirs)).await;
    let forum = api.forum("Workshop", Member);
    let theirs = api.opens_topic(forum, &BEN, "Theirs");
    assert_eq!(refused(&api, delete, topic(forum, theirs)).await, denied);

    let forum = api.forum("Workshop", TopicsAdmin);
    let invalid = "Bad Request: invalid forum topic identifier specified";
    assert_eq!(refused(&api, delete, topic(forum, 0)).await, invalid);
    let general = "Bad Request: TOPIC_ID_INVALID";
    assert_eq!(refused(&api, delete, topic(forum, 1)).await, general);
    let ada = api.private(&ADA);
    for chat in [api.supergroup("Plain"), ada] {
        let denied = "Bad Request: the chat is not a forum";
        assert_eq!(refused(&api, delete, topic(chat, 5)).await, denied);
    }
    // A private chat has topics when the bot is set so, and they need no right.
    api.private_topics(true);
    let own = open(&api, ada, "Own").await;
    done(&api, delete, topic(ada, own)).await;
    assert_eq!(api.topics(ada), []);
}

#[tokio::test]
async fn a_topic_is_closed_by_its_creator_or_with_the_right_to_manage_topics() {
    let api = BotApi::start();
    let (close, reopen) = ("closeForumTopic", "reopenForumTopic");
    let forum = api.forum("Workshop", TopicsAdmin);
    let own = open(&api, forum, "Own").await;
    let theirs = api.opens_topic(forum, &BEN, "Theirs");
    for thread in [own, theirs] {
        done(&api, close, topic(forum, thread)).await;
        let same = "Bad Request: TOPIC_NOT_MODIFIED";
        assert_eq!(refused(&api, close, topic(forum, thread)).await, same);
        send(&api, forum, Some(thread)).await;
    }

    api.revoke_rights(forum);
    let late = json!({"chat_id": forum, "message_thread_id": theirs, "text": "hello"});
    let closed = "Bad Request: TOPIC_CLOSED";
    assert_eq!(refused(&api, "sendMessage", late).await, closed);
    send(&api, forum, Some(own)).await;
    let denied = "Bad Request: not enough rights to close or open the topic";
    assert_eq!(refused(&api, reopen, topic(forum, theirs)).await, denied);
    done(&api, reopen, topic(forum, own)).await;
    let name = |thread: i64| json!({"chat_id": forum, "message_thread_id": thread, "name": "New"});
    let denied = "Bad Request: not enough rights to edit the topic";
    assert_eq!(refused(&api, "editForumTopic", name(theirs)).await, denied);
    done(&api, "editForumTopic", name(own)).await;
    assert_eq!(api.topics(forum)[0].name, "New");

    // The documentation knows closed topics in forums only.
    let ada = api.private(&ADA);
    api.private_topics(true);
    let own = open(&api, ada, "Own").await;
    let denied = "Bad Request: the chat is not a forum";
    assert_eq!(refused(&api, close, topic(ada, own)).await, denied);
}

/// Whether a message can be deleted.
async fn can_delete(api: &BotApi, chat: i64, id: i64) -> bool {
    let (denied, delete) = ("Bad Request: message can't be deleted", "deleteMessage");
    let (status, body) = call(api, delete, message(chat, id)).await.unwrap();
    assert!(status == 200 || body["description"] == denied, "{body}");
    status == 200
}

#[tokio::test]
async fn a_message_is_deleted_where_the_documentation_allows_it() {
    let api = BotApi::start();
    let (ada, group) = (api.private(&ADA), api.group("Friends"));
    // Its own messages, everywhere; those of others in a private chat, or with the right.
    let forums =
        [Member, TopicsAdminWithoutDeletion, Admin].map(|rights| api.forum("Workshop", rights));
    let chats = [
        (ada, true),
        (group, false),
        (forums[0], false),
        (forums[1], false),
        (forums[2], true),
    ];
    for (chat, others) in chats {
        let own = send(&api, chat, None).await;
        assert!(can_delete(&api, chat, own).await, "{chat}");
        let of_ben = api.says(chat, None, &BEN, "hi");
        assert_eq!(can_delete(&api, chat, of_ben).await, others, "{chat}");
    }
    let channel = api.channel("News", "hermes_news");
    let post = api.says(channel, None, &ADA, "a post");
    assert!(can_delete(&api, channel, post).await);

    // Not the message about the creation of a topic, and nothing after two days.
    let forum = api.forum("Workshop", TopicsAdmin);
    let thread = open(&api, forum, "Handoff").await;
    assert!(!can_delete(&api, forum, thread).await);
    for (hours, deletable) in [(47, true), (48, false)] {
        let ago = Duration::from_secs(hours * 3600);
        let old = api.writes(ada, &ADA).ago(ago).text("hi").send();
        if deletable {
            assert!(can_delete(&api, ada, old).await);
        } else {
            let late = "Bad Request: message can't be deleted for everyone";
            assert_eq!(
                refused(&api, "deleteMessage", message(ada, old)).await,
                late
            );
        }
    }
}
