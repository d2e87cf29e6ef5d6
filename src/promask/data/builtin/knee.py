"""Procedural sagittal knee MRI."""

from __future__ import annotations

import numpy as np

from promask.data.builtin.phantom import (
    Anatomy,
    Canvas,
    Numbers,
    Placement,
    Points,
    Raster,
    acquire,
    curve,
    ellipse,
    offset,
    stroke,
    texture,
)

FEMUR, TIBIA, PATELLA, CARTILAGE, MENISCUS = 1, 2, 3, 4, 5

# Proton-density-like intensities.
_FAT, _MARROW, _MUSCLE, _HYALINE, _FLUID, _SKIN, _DARK = 0.95, 0.62, 0.21, 0.32, 0.2, 0.4, 0.03

# Knots in thousandths of the field of view, anterior on the left, at three distances from the midline:
# through the intercondylar notch, through the middle of a condyle, and through its outer edge.
_MIDLINE = (0.0, 0.4, 1.0)
_TEMPLATE = {
    "leg": (
        "190,-200 175,100 145,220 135,320 165,440 215,580 280,750 330,900 360,1200 "
        "930,1200 900,850 855,620 820,420 830,250 860,80 880,-200",
        "192,-200 182,100 165,220 162,320 188,440 232,580 292,750 335,900 365,1200 "
        "920,1200 890,850 845,620 810,420 820,250 850,80 870,-200",
        "250,-200 265,100 280,220 292,320 305,440 345,580 385,750 415,900 440,1200 "
        "860,1200 840,850 800,620 760,420 770,250 800,80 820,-200",
    ),
    "femur": (
        "360,-200 345,120 320,240 300,330 325,420 400,485 490,505 560,455 585,365 555,270 530,120 525,-200",
        "360,-300 345,120 310,250 275,360 300,470 390,540 510,555 630,510 675,410 620,300 550,140 535,-300",
        "440,280 400,290 360,320 330,380 335,450 390,510 480,530 570,500 610,420 590,340 540,290 490,275",
    ),
    "tibia": (
        "360,600 440,585 530,545 600,600 655,655 620,730 600,850 600,1200 430,1200 400,900 365,760 345,670",
        "385,600 450,595 530,592 610,597 665,620 655,690 590,820 570,1300 430,1300 405,900 375,750 365,665",
        "420,595 460,590 510,588 560,590 600,605 600,650 560,710 530,750 500,760 470,740 435,700 410,640",
    ),
    "patella": (
        "232,170 268,205 284,285 262,350 225,395 192,345 185,265 202,200",
        "232,195 264,230 270,290 254,345 226,370 202,330 195,270 208,225",
        "240,215 262,245 268,295 255,335 230,355 210,325 205,275 215,235",
    ),
    "quadriceps": (
        "265,-200 255,20 250,100 275,170 295,100 315,20 330,-200",
        "240,-200 232,40 228,130 260,240 320,200 350,40 365,-200",
        "282,-200 292,60 305,220 350,300 490,290 610,120 640,-200",
    ),
    "hamstring": (
        "630,-200 660,80 715,200 765,240 800,160 825,40 835,-200",
        "600,-200 630,100 695,230 755,280 785,160 812,40 825,-200",
        "620,-200 640,100 680,270 715,350 738,200 760,50 775,-200",
    ),
    "gastrocnemius": (
        "645,300 700,330 770,500 820,700 865,1200 640,1200 645,880 680,720 670,550 635,420",
        "660,240 720,270 775,450 820,680 860,1200 610,1200 630,850 690,700 700,550 700,380",
        "650,500 680,480 720,560 770,720 820,1200 560,1200 570,850 610,750 630,640 640,560",
    ),
    "popliteus": (
        "640,720 668,760 660,900 640,1200 605,1200 610,850",
        "660,720 680,770 650,860 620,1200 580,1200 605,840",
        "600,690 620,760 590,860 580,1200 380,1200 430,780",
    ),
}
_KNOTS = {
    name: np.array([[pair.split(",") for pair in frame.split()] for frame in frames], dtype=np.float64) / 1000
    for name, frames in _TEMPLATE.items()
}


def knee(
    subjects: int = 20,
    slices: int = 6,
    size: int = 192,
    seed: int = 0,
    noise: float = 0.01,
    phase: bool = False,
) -> Anatomy:
    """Draw sagittal knees.

    Gives `subjects * slices` images of (size, size) from medial to lateral, and labels with 0 background,
    1 femur, 2 tibia, 3 patella, 4 cartilage and 5 meniscus. `noise` is relative to the typical tissue
    intensity; `phase` asks for complex images. A subject depends on the seed and its number alone.

    >>> knee(subjects=2, slices=3, size=64).image.shape
    (6, 64, 64)
    """
    return acquire("knee", _Leg, (subjects, slices, size), seed, noise, phase)


class _Leg:
    """The knee of one subject."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Draw the subject's build."""
        self._placement = Placement(rng, turn=0.08, bend=0.018)
        self._fat = rng.uniform(-0.005, 0.025)
        self._cartilage = rng.uniform(0.011, 0.016)
        self._cortex = rng.uniform(0.008, 0.014)
        self._scar = rng.uniform(0.1, 0.4)
        self._patella = rng.normal(0, 0.012)
        self.coils: Points = np.array([(0.1, 0.45), (0.95, 0.5)]) + rng.normal(0, 0.05, (2, 2))

    def slice(self, rng: np.random.Generator, size: int, depth: float) -> Canvas:
        """Draw the slice at a depth from 0, medial, to 1, lateral."""
        canvas = Canvas(size, self._placement, depth)
        # The range is off centre so that a single slice shows menisci as well as the cruciate ligament.
        side = 1.7 * depth - 0.7
        away = abs(side)
        blend = [np.interp(away, _MIDLINE, weight) for weight in np.eye(3)]
        shape = {name: curve(np.tensordot(blend, knots, 1)) for name, knots in _KNOTS.items()}
        shape["patella"] += (0, self._patella)
        cloudy = texture(rng, size, 0.03, slope=3)
        grain = texture(rng, size, 0.0025, stretch=2.5)

        self._soft_tissue(canvas, rng, shape, away, cloudy)
        self._joint(canvas, shape, away)
        self._cruciate(canvas, side, grain)
        marrow = _MARROW * (1 + 0.05 * cloudy + 0.07 * grain)
        if side > 0.5:
            fibula = ellipse((0.635, 0.8), (0.035, 0.1 * min(1, 4 * (side - 0.5))), -0.1)
            canvas.paint(fibula, _DARK)
            canvas.paint(offset(fibula, -0.007), marrow)
        self._bone(canvas, shape["femur"], marrow, FEMUR, away, [(0.2, 0.37), (0.45, 0.4), (0.7, 0.38)])
        self._bone(canvas, shape["tibia"], marrow, TIBIA, away, [(0.3, 0.68), (0.5, 0.655), (0.7, 0.67)])
        self._extensor(canvas, shape["patella"], marrow, away)
        return canvas

    def _soft_tissue(
        self, canvas: Canvas, rng: np.random.Generator, shape: dict[str, Points], away: float, cloudy: Raster
    ) -> None:
        """Paint skin, fat with its septa, fasciae, vessels and muscles."""
        sheet = texture(rng, canvas.size, 0.02, stretch=1.6)
        fibre = texture(rng, canvas.size, 0.006, stretch=6)
        leg = offset(shape["leg"], self._fat)
        canvas.paint(leg, _SKIN)
        # Connective tissue divides fat along curved sheets, as the zero level of a random field does.
        septa = np.exp(-(sheet**2) / 0.01)
        fat = _FAT * (1 + 0.05 * cloudy) * (1 - 0.3 * septa)
        canvas.paint(offset(leg, -0.006), fat)
        canvas.paint(stroke(offset(shape["leg"], -0.022), 0.004, closed=True), 0.35)
        vessel = curve([(0.62, -0.1), (0.63, 0.15), (0.68, 0.4), (0.67, 0.6), (0.69, 1.1)], closed=False)
        seen = max(0, 1 - 3 * away)
        for shift, width, tissue in ((0, 0.03, 0.3), (0.02, 0.014, 0.1)):
            canvas.paint(seen * canvas.mask(stroke(offset(vessel, shift, closed=False), width)), tissue)
        strand = np.clip(fibre - 1.8, 0, 1.5) * 0.25
        muscle = _MUSCLE * (1 + 0.06 * cloudy + 0.05 * fibre) + strand
        for name in ("quadriceps", "hamstring", "popliteus", "gastrocnemius"):
            canvas.paint(stroke(shape[name], 0.012, closed=True), 0.6 * _FAT)
            canvas.paint(shape[name], muscle)

    def _joint(self, canvas: Canvas, shape: dict[str, Points], away: float) -> None:
        """Paint capsule, menisci and cartilage; bone will cover their inner halves."""
        femur, tibia, patella = shape["femur"], shape["tibia"], shape["patella"]
        inside = min(1, away / 0.35)
        behind = np.add(femur[60], (0.022, 0.02))
        capsule = curve([femur[68], behind, (0.665, 0.56), tibia[36]], closed=False)
        canvas.paint(stroke(capsule, 0.012), 0.1)
        if inside > 0.3:
            narrow = 0.07 * max(0, away - 0.4)
            front, back = 0.375 + narrow, 0.665 - 1.3 * narrow
            canvas.paint(np.array([(front, 0.53), (front, 0.61), (back, 0.61), (back, 0.53)]), _FLUID)
            length = inside * (0.075 + 0.13 * max(0, away - 0.5))
            for rim, way in ((front, 1), (back, -1)):
                wedge = [(rim, 0.51), (rim - 0.01 * way, 0.565), (rim, 0.61), (rim + way * length, 0.592)]
                canvas.paint(np.array([*wedge, (rim + way * length, 0.57)]), _DARK, MENISCUS)
        layers = [(femur[22 : 46 + int(18 * inside)], 1.0), (tibia[2:32], inside)]
        if away < 0.5:
            layers.append((patella[4:28], 1.0))
        for border, relative in layers:
            taper = np.sqrt(np.sin(np.linspace(0.05, np.pi - 0.05, len(border))))
            canvas.paint(stroke(border, 2 * self._cartilage * relative * taper), _HYALINE, CARTILAGE)

    def _bone(
        self, canvas: Canvas, outline: Points, marrow: Raster, label: int, away: float, scar: Numbers
    ) -> None:
        """Paint a dark cortex, thick along the shaft, and marrow with the scar of the growth plate."""
        canvas.paint(outline, _DARK, label)
        thick = self._cortex * max(0.2, 1 - away**2)
        shaft = np.clip((np.abs(outline[:, 1] - 0.57) - 0.25) / 0.15, 0, 1)
        inside = canvas.paint(offset(outline, -0.004 - thick * shaft), marrow)
        canvas.paint(inside * canvas.mask(stroke(curve(scar, closed=False), 0.006)) * self._scar, _DARK)

    def _extensor(self, canvas: Canvas, patella: Points, marrow: Raster, away: float) -> None:
        """Paint the patella between two tendons, which thin out sideways to a grey retinaculum."""
        top, tip = patella[0], patella[32]
        above = curve([(0.235, -0.1), (0.23, 0.06), (top[0] - 0.008, top[1] + 0.01)], False)
        below = curve([(tip[0] - 0.012, tip[1] - 0.03), (0.24, 0.48), (0.29, 0.62), (0.365, 0.77)], False)
        front = curve([top, patella[56], patella[44], tip], False)
        aside = float(np.clip(5 * away - 1.6, 0, 1))
        if aside < 1:
            canvas.paint(patella, _DARK, PATELLA)
            canvas.paint(offset(patella, -0.005), marrow)
            canvas.paint(stroke(front, 0.01), _DARK)
            canvas.paint(stroke(above, 0.024 * (1 - aside)), _DARK)
        sideways = (0.12 * max(0, away - 0.3), 0)
        canvas.paint(stroke(below + sideways, 0.024 - 0.012 * aside), _DARK + 0.3 * aside)

    def _cruciate(self, canvas: Canvas, side: float, grain: Raster) -> None:
        """Paint the anterior and the posterior cruciate ligament, one on either side of the midline."""
        anterior = curve([(0.585, 0.42), (0.53, 0.5), (0.445, 0.59)], False)
        posterior = curve([(0.5, 0.49), (0.575, 0.485), (0.63, 0.555), (0.65, 0.66)], False)
        for ligament, width, centre in ((anterior, 0.035, 0.1), (posterior, 0.026, -0.12)):
            seen = min(1, 1.6 * np.exp(-(((side - centre) / 0.2) ** 2)))
            canvas.paint(seen * canvas.mask(stroke(ligament, width)), 0.1 + 0.05 * grain)
