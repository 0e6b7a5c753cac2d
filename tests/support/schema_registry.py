"""A small schema registry with Confluent's REST API, in a thread of its own: commands and blocking clients use it."""

import asyncio
import base64
import threading
from concurrent.futures import Future

from aiohttp import web

from client.schemas.protobuf import compile_text

SUBJECT_NOT_FOUND = 40401
SCHEMA_NOT_FOUND = 40403


class RegistryThread:
    """A context manager. `requests` are the paths that were asked for; `auth` is the user and password to ask for."""

    def __init__(self, auth=None):
        self.auth = auth
        self.requests = []
        self.silent = False
        self._schemas = []  # their ids are their places, from 1
        self._versions = {}  # subject → ids

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        ready = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="schema-registry", daemon=True)
        self._thread.start()
        self.port = ready.result()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def register(self, subject, text, kind="AVRO", references=()):
        """Add a version to a subject, and return the id of the schema. `references`: (name, subject, version)."""
        named = [{"name": name, "subject": at, "version": version} for name, at, version in references]
        return self._register(subject, {"schema": text, "schemaType": kind, "references": named})

    def _register(self, subject, schema):
        kept = {"schema": schema["schema"], "schemaType": schema.get("schemaType") or "AVRO"}
        kept["references"] = schema.get("references") or []
        if kept not in self._schemas:
            self._schemas.append(kept)
        number = self._schemas.index(kept) + 1
        versions = self._versions.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(ready))

    async def _serve(self, ready):
        app = web.Application(middlewares=[self._watch])
        app.add_routes(
            [
                web.get("/subjects", self._subjects),
                web.get("/schemas/ids/{id}", self._by_id),
                web.get("/schemas/ids/{id}/versions", self._versions_of),
                web.get("/subjects/{subject}/versions/{version}", self._version),
                web.post("/subjects/{subject}/versions", self._post),
                web.post("/subjects/{subject}", self._look_up),
            ]
        )
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ready.set_result(runner.addresses[0][1])
        await self._stop.wait()
        await runner.cleanup()

    @web.middleware
    async def _watch(self, request, handler):
        self.requests.append(request.path)
        if self.silent:
            await self._stop.wait()
        if self.auth is not None and request.headers.get("Authorization") != self._basic_auth():
            return web.json_response({"error_code": 401, "message": "Unauthorized"}, status=401)
        return await handler(request)

    def _basic_auth(self):
        return "Basic " + base64.b64encode(":".join(self.auth).encode()).decode()

    async def _subjects(self, request):
        return web.json_response(sorted(self._versions))

    async def _by_id(self, request):
        number = int(request.match_info["id"])
        if not 1 <= number <= len(self._schemas):
            return web.json_response({"error_code": SCHEMA_NOT_FOUND, "message": "Schema not found"}, status=404)
        return web.json_response(self._shown(self._schemas[number - 1], request))

    async def _versions_of(self, request):
        number = int(request.match_info["id"])
        found = [(subject, ids.index(number) + 1) for subject, ids in self._versions.items() if number in ids]
        return web.json_response([{"subject": subject, "version": version} for subject, version in found])

    async def _version(self, request):
        subject, version = request.match_info["subject"], request.match_info["version"]
        ids = self._versions.get(subject, [])
        number = len(ids) if version == "latest" else int(version)
        if not 1 <= number <= len(ids):
            return web.json_response({"error_code": SUBJECT_NOT_FOUND, "message": "not found"}, status=404)
        shown = self._shown(self._schemas[ids[number - 1] - 1], request)
        return web.json_response(shown | {"subject": subject, "version": number, "id": ids[number - 1]})

    async def _look_up(self, request):
        schema = await request.json()
        ids = self._versions.get(request.match_info["subject"], [])
        if not any(self._schemas[one - 1]["schema"] == schema["schema"] for one in ids):
            return web.json_response({"error_code": SCHEMA_NOT_FOUND, "message": "Schema not found"}, status=404)
        return await self._post(request)

    async def _post(self, request):
        schema = await request.json()
        subject = request.match_info["subject"]
        number = self._register(subject, schema)
        shown = {"subject": subject, "version": self._versions[subject].index(number) + 1, "id": number}
        return web.json_response(self._schemas[number - 1] | shown)

    def _shown(self, schema, request):
        shown = dict(schema)
        if shown["schemaType"] == "AVRO":
            del shown["schemaType"]  # as Confluent's registry
        if request.query.get("format") == "serialized" and schema["schemaType"] == "PROTOBUF":
            from google.protobuf.descriptor_pb2 import FileDescriptorSet

            texts = {one["name"]: self._text(one) for one in schema["references"]}
            files = FileDescriptorSet.FromString(compile_text(schema["schema"], texts)).file
            shown["schema"] = base64.b64encode(files[-1].SerializeToString()).decode()
        return shown

    def _text(self, reference):
        return self._schemas[self._versions[reference["subject"]][reference["version"] - 1] - 1]["schema"]
