"""Programs that follow LangGraph's guides to persistence, with only the saver replaced."""

# LangGraph's own types are incomplete, and tests rely on what the types leave open.
# pyright: basic, reportTypedDictNotRequiredAccess=false, reportIndexIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalSubscript=false, reportAttributeAccessIssue=false
# mypy: disable-error-code="arg-type,index,no-any-return,union-attr,var-annotated"

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from conftest import new_postgres_store

pytest.importorskip("langgraph")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from milepost.langgraph import MilepostSaver
from typing_extensions import TypedDict


@pytest.fixture(params=["sqlite", "files", "postgres"])
def saver(request: pytest.FixtureRequest, project: Path) -> Iterator[MilepostSaver]:
    addresses = {"sqlite": "sqlite:checkpoints.db", "files": "files:store"}
    with MilepostSaver.from_conn_string(addresses.get(request.param) or new_postgres_store()) as saver:
        yield saver


def thread(id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": id}}


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Steps(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    topic: str
    approved: bool


def chat_graph(saver: MilepostSaver, answers: list[str]) -> Any:
    model = GenericFakeChatModel(messages=iter([AIMessage(text) for text in answers]))

    def respond(state: Chat) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(Chat)
    builder.add_node("respond", respond)
    builder.add_edge(START, "respond")
    builder.add_edge("respond", END)
    return builder.compile(checkpointer=saver)


def test_memory_of_a_conversation(saver: MilepostSaver) -> None:
    graph = chat_graph(saver, ["Hello Bob", "Your name is Bob", "I do not know"])
    graph.invoke({"messages": [HumanMessage("I am Bob")]}, thread("1"))
    graph.invoke({"messages": [HumanMessage("What is my name?")]}, thread("1"))
    other = graph.invoke({"messages": [HumanMessage("What is my name?")]}, thread("2"))
    assert [message.content for message in other["messages"]] == ["What is my name?", "I do not know"]
    said = [message.content for message in graph.get_state(thread("1")).values["messages"]]
    assert said == ["I am Bob", "Hello Bob", "What is my name?", "Your name is Bob"]


def steps_graph(saver: MilepostSaver) -> Any:
    builder = StateGraph(Steps)
    builder.add_node("choose", lambda state: {"topic": "parsers", "log": ["chosen"]})
    builder.add_node("write", lambda state: {"log": [f"wrote about {state['topic']}"]})
    builder.add_edge(START, "choose")
    builder.add_edge("choose", "write")
    builder.add_edge("write", END)
    return builder.compile(checkpointer=saver)


def test_time_travel_replays_and_forks(saver: MilepostSaver) -> None:
    graph = steps_graph(saver)
    assert graph.invoke({"log": []}, thread("t"))["log"] == ["chosen", "wrote about parsers"]
    history = list(graph.get_state_history(thread("t")))
    assert [state.next for state in history] == [(), ("write",), ("choose",), ("__start__",)]
    before = next(state for state in history if state.next == ("write",))
    assert graph.invoke(None, before.config)["log"] == ["chosen", "wrote about parsers"]
    forked = graph.update_state(before.config, {"topic": "lexers"})
    assert graph.invoke(None, forked)["log"][-1] == "wrote about lexers"
    # The original branch is still there.
    assert graph.get_state(before.config).values["topic"] == "parsers"
    assert len(list(graph.get_state_history(thread("t")))) > len(history)


def approval_graph(saver: MilepostSaver) -> Any:
    def ask(state: Steps) -> dict[str, Any]:
        answer = interrupt({"question": "Publish?", "draft": state["log"]})
        return {"approved": answer == "yes", "log": [f"answered {answer}"]}

    builder = StateGraph(Steps)
    builder.add_node("draft", lambda state: {"log": ["draft"]})
    builder.add_node("ask", ask)
    builder.add_edge(START, "draft")
    builder.add_edge("draft", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def test_a_human_decides_in_another_process(saver: MilepostSaver) -> None:
    result = approval_graph(saver).invoke({"log": []}, thread("t"))
    assert result["__interrupt__"][0].value == {"question": "Publish?", "draft": ["draft"]}
    # Another graph object, as after a restart.
    graph = approval_graph(saver)
    state = graph.get_state(thread("t"))
    assert state.next == ("ask",)
    assert state.tasks[0].interrupts[0].value["question"] == "Publish?"
    done = graph.invoke(Command(resume="yes"), thread("t"))
    assert done["approved"] is True
    assert done["log"] == ["draft", "answered yes"]


def test_a_failed_step_is_not_repeated_for_those_that_succeeded(saver: MilepostSaver) -> None:
    runs: list[str] = []
    fails = True

    def good(state: Steps) -> dict[str, Any]:
        runs.append("good")
        return {"log": ["good"]}

    def bad(state: Steps) -> dict[str, Any]:
        runs.append("bad")
        if fails:
            raise RuntimeError("not yet")
        return {"log": ["bad"]}

    builder = StateGraph(Steps)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError, match="not yet"):
        graph.invoke({"log": []}, thread("t"), durability="sync")
    fails = False
    assert sorted(graph.invoke(None, thread("t"), durability="sync")["log"]) == ["bad", "good"]
    assert runs.count("good") == 1


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_subgraphs_have_namespaces_of_their_own(saver: MilepostSaver, durability: Any) -> None:
    inner = StateGraph(Steps)
    inner.add_node("inside", lambda state: {"log": ["inside"]})
    inner.add_node("ask", lambda state: {"log": [interrupt("continue?")]})
    inner.add_edge(START, "inside")
    inner.add_edge("inside", "ask")
    outer = StateGraph(Steps)
    outer.add_node("child", inner.compile())
    outer.add_edge(START, "child")
    graph = outer.compile(checkpointer=saver)
    graph.invoke({"log": ["start"]}, thread("t"), durability=durability)
    state = graph.get_state(thread("t"), subgraphs=True)
    assert state.tasks[0].state.values["log"] == ["start", "inside"]
    done = graph.invoke(Command(resume="yes"), thread("t"), durability=durability)
    assert done["log"] == ["start", "start", "inside", "yes"]
    namespaces = {one.config["configurable"]["checkpoint_ns"] for one in saver.list(thread("t"))}
    assert "" in namespaces and any(name.startswith("child:") for name in namespaces)
    saver.delete_thread("t")
    assert graph.get_state(thread("t")).values == {}


def test_async_graphs(saver: MilepostSaver) -> None:
    async def main() -> None:
        graph = steps_graph(saver)
        results = await asyncio.gather(*(graph.ainvoke({"log": []}, thread(str(n))) for n in range(5)))
        assert all(result["log"] == ["chosen", "wrote about parsers"] for result in results)
        history = [state async for state in graph.aget_state_history(thread("0"))]
        assert len(history) == 4
        async for _ in graph.astream({"log": []}, thread("0"), stream_mode="values"):
            pass
        assert len((await graph.aget_state(thread("0"))).values["log"]) == 4

    asyncio.run(main())


def test_a_loop_with_a_growing_list_is_small_on_disk(project: Path) -> None:
    class Loop(TypedDict):
        messages: Annotated[list[str], operator.add]

    builder = StateGraph(Loop)
    builder.add_node("step", lambda state: {"messages": [f"{len(state['messages']):08} " + "word " * 38]})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if len(state["messages"]) < 60 else END)
    with MilepostSaver.from_conn_string("sqlite:s.db") as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": []}, {**thread("t"), "recursion_limit": 100}, durability="sync")
        assert len(graph.get_state(thread("t")).values["messages"]) == 60
