"""Lists and calls every tool of `milepost mcp` with the official Python SDK, which validates each result against
its schema."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(milepost, calls):
    server = StdioServerParameters(command=milepost, args=["mcp"], cwd=os.getcwd())
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        greeted = await session.initialize()
        assert "`resume` tool first" in greeted.instructions, greeted
        names = sorted(tool.name for tool in (await session.list_tools()).tools)
        assert names == sorted({name for name, _ in calls}), names
        for name, arguments in calls:
            answer = await session.call_tool(name, arguments)
            assert not answer.is_error, (name, answer)
            assert answer.structured_content["schema"] == f"milepost.{name}/1", answer
            print(f"mcp: python {name}: ok")
        refused = await session.call_tool("show", {"ref": "nope"})
        assert refused.is_error and json.loads(refused.content[0].text)["reason_code"] == "checkpoint_not_found"
        resources = (await session.list_resources()).resources
        assert len(resources) == 2, resources
        for resource in resources:
            assert (await session.read_resource(resource.uri)).contents[0].text
        assert [prompt.name for prompt in (await session.list_prompts()).prompts] == ["resume"]
        assert (await session.get_prompt("resume")).messages[0].content.text
        print(f"mcp: python protocol {greeted.protocol_version}")
    # The newest protocol has no initialisation: every request is self-contained.
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        found = await session.discover()
        assert found.instructions, found
        assert sorted(tool.name for tool in (await session.list_tools()).tools) == names
        assert not (await session.call_tool("list", {})).is_error
        print(f"mcp: python protocols {', '.join(found.supported_versions)}")


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
