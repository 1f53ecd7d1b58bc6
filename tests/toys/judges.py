"""A model that judges episodes by the length of what it is shown, and writes lessons."""

from turncredit.engines.base import Completion, Sampler


class LengthJudge(Sampler):
    """Says a number from 0 to 10 that follows from the question, or a lesson where it is asked for advice."""

    async def sample(self, request):
        text = request.messages[-1]["content"]
        answer = f"Rule {len(text)}: look around." if "advice" in text else str(len(text) % 11)
        return Completion((), (), answer, 0, "stop", {"request_cost": 0.5})


def make_judge(settings):
    return LengthJudge()
