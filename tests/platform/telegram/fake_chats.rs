//! The chats of the fake Telegram: topics, and chats that do not want the bot.

use serde_json::json;
use teloxide_core::payloads::SendMessageSetters;
use teloxide_core::prelude::Requester;
use teloxide_core::types::{ChatId, MessageId, MessageKind, ReplyParameters, ThreadId, UpdateKind};
use teloxide_core::{ApiError, RequestError};

use crate::platform::telegram::fake::{bot, done, refused};
use crate::platform::telegram::fake_library::{message, next};
use crate::support::telegram::{ADA, BEN, BotApi, Rights};

#[tokio::test]
async fn forums_have_topics_and_other_groups_have_not() {
    let api = BotApi::start();
    let bot = bot(&api);
    let forum = api.forum("Workshop", Rights::TopicsAdmin);
    let topic = bot
        .create_forum_topic(ChatId(forum), "Handoff")
        .await
        .unwrap();
    let thread = i64::from(topic.thread_id.0.0);
    assert_eq!(api.topics(forum)[0].name, "Handoff");
    let send = |chat: i64, thread: i64| {
        let thread = ThreadId(MessageId(thread as i32));
        bot.send_message(ChatId(chat), "hi")
            .message_thread_id(thread)
    };
    let sent = send(forum, thread).await.unwrap();
    assert!(sent.is_topic_message);
    assert_eq!(api.messages_in(forum, Some(thread))[0].reply_to, None);
    assert_eq!(api.messages_in(forum, None).len(), 0);

    // What answers nothing in a topic answers its beginning.
    api.says(forum, Some(thread), &ADA, "in the topic");
    let said = message(next(&bot).await);
    assert_eq!(
        (said.is_topic_message, said.thread_id),
        (true, Some(topic.thread_id))
    );
    assert_eq!(said.reply_to_message().unwrap().id, topic.thread_id.0);
    let answer = bot
        .send_message(ChatId(forum), "re")
        .reply_parameters(ReplyParameters::new(said.id));
    assert_eq!(answer.await.unwrap().thread_id, Some(topic.thread_id));

    // The general topic has no number, and numbers there are no topics.
    let first = api.says(forum, None, &ADA, "in general");
    let said = message(next(&bot).await);
    assert_eq!((said.is_topic_message, said.thread_id), (false, None));
    api.writes(forum, &BEN).reply_to(first).text("re").send();
    let said = message(next(&bot).await);
    assert_eq!(
        (said.is_topic_message, said.thread_id.unwrap().0.0),
        (false, first as i32)
    );
    let not_found = "message thread not found";
    for number in [1, first] {
        assert!(
            send(forum, number)
                .await
                .unwrap_err()
                .to_string()
                .contains(not_found)
        );
    }
    let general = json!({"chat_id": forum, "message_thread_id": 1, "action": "typing"});
    done(&api, "sendChatAction", general).await;
    let plain = api.supergroup("Plain");
    let first = api.says(plain, None, &ADA, "one");
    next(&bot).await;
    api.writes(plain, &BEN).reply_to(first).text("two").send();
    let said = message(next(&bot).await);
    assert_eq!(
        (said.is_topic_message, said.thread_id.is_some()),
        (false, true)
    );
    assert!(
        send(plain, first)
            .await
            .unwrap_err()
            .to_string()
            .contains(not_found)
    );

    // Topics of people, and topics that go.
    let theirs = api.opens_topic(forum, &BEN, "Ben's");
    let said = message(next(&bot).await);
    assert!(matches!(said.kind, MessageKind::ForumTopicCreated(_)));
    bot.close_forum_topic(ChatId(forum), said.thread_id.unwrap())
        .await
        .unwrap();
    assert!(
        api.topics(forum)
            .iter()
            .any(|topic| topic.closed && topic.thread == theirs)
    );
    api.delete_topic(forum, thread);
    assert!(
        send(forum, thread)
            .await
            .unwrap_err()
            .to_string()
            .contains(not_found)
    );
    let typing = json!({"chat_id": forum, "message_thread_id": thread, "action": "typing"});
    assert_eq!(
        refused(&api, "sendChatAction", typing).await,
        format!("Bad Request: {not_found}")
    );
    bot.delete_forum_topic(ChatId(forum), said.thread_id.unwrap())
        .await
        .unwrap();
    let chat = bot.get_chat(ChatId(forum)).await.unwrap();
    assert_eq!(chat.title(), Some("Workshop"));

    api.revoke_rights(forum);
    let UpdateKind::MyChatMember(changed) = next(&bot).await.kind else {
        panic!("not told");
    };
    assert!(changed.old_chat_member.can_manage_chat());
    let create = json!({"chat_id": forum, "name": "a"});
    let denied = "Bad Request: not enough rights to create a topic";
    assert_eq!(
        refused(&api, "createForumTopic", create.clone()).await,
        denied
    );
    for chat in [api.group("Friends"), plain] {
        let create = json!({"chat_id": chat, "name": "a"});
        let denied = "Bad Request: the chat is not a forum";
        assert_eq!(refused(&api, "createForumTopic", create).await, denied);
    }
    // Private chats have topics when the bot is set so.
    let ada = api.private(&ADA);
    api.private_topics(true);
    let topic = bot
        .create_forum_topic(ChatId(ada), "Handoff")
        .await
        .unwrap();
    assert!(
        send(ada, i64::from(topic.thread_id.0.0))
            .await
            .unwrap()
            .is_topic_message
    );
    assert_eq!(
        done(&api, "getMe", json!({})).await["has_topics_enabled"],
        true
    );
}

#[tokio::test]
async fn the_bot_can_be_unwelcome() {
    let api = BotApi::start();
    let bot = bot(&api);
    let ada = api.private(&ADA);
    api.block(&ADA);
    next(&bot).await;
    let blocked = bot.send_message(ChatId(ada), "hi").await.unwrap_err();
    assert!(
        matches!(blocked, RequestError::Api(ApiError::BotBlocked)),
        "{blocked}"
    );
    api.unblock(&ADA);
    bot.send_message(ChatId(ada), "hi").await.unwrap();
    let group = api.supergroup("Friends");
    api.kick(group);
    let kicked = bot.send_message(ChatId(group), "hi").await.unwrap_err();
    assert!(
        matches!(kicked, RequestError::Api(ApiError::BotKickedFromSupergroup)),
        "{kicked}"
    );
    let channel = api.channel("News", "hermes_news");
    bot.send_message("@hermes_news".to_owned(), "hi")
        .await
        .unwrap();
    assert_eq!(api.messages_in(channel, None).len(), 1);
    api.revoke_rights(channel);
    let denied = bot.send_message(ChatId(channel), "hi").await.unwrap_err();
    assert!(
        matches!(
            denied,
            RequestError::Api(ApiError::NotEnoughRightsToPostMessages)
        ),
        "{denied}"
    );
}
